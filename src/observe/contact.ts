import { nameOfProcess, nameOfProgram } from '../command/process-sockets.ts';
import type { ProcessFamily } from '../command/process-tree.ts';
import { type CommandResult, type RunOptions, runCommand } from '../command/run-command.ts';
import type { Target } from '../database/target.ts';
import { messageOf } from '../errors.ts';
import type { Caveat, TargetConnection } from '../model/report.ts';
import { parseOwnedName } from '../ownership/mark.ts';
import { ownBackendPids } from '../postgres/connection/own-backends.ts';
import type { Session } from '../postgres/connection/session.ts';
import { statementWithoutSecrets } from '../postgres/sql/statement-secrets.ts';
import { MachineConnections } from './machine-connections.ts';
import { type Origin, originsOf, seesOurPorts } from './session-origin.ts';

/**
 * Watches, while the command runs, for sessions on the target that come from the command itself: a program that
 * ignores the URL it was given and opens its own connection. Such a session is ended at once. It is recognised by its
 * socket, which a process of the command holds; a connection of anybody else is never touched.
 */
interface ContactWatch {
  /** Lists the sessions once more, and ends the watch. */
  stop(): Promise<Contacts>;
}

export interface Contacts {
  readonly targetConnections: TargetConnection[];
  /** Sessions on the target that began while the command ran and were seen to be somebody else's: `pid start`. */
  readonly others: readonly string[];
  /** Sessions in other databases of the server that began while the command ran, and whose origin was seen. */
  readonly elsewhere: readonly SessionElsewhere[];
  /** A process of this machine other than ours connected to the server over TCP, or that cannot be seen. */
  readonly dialled: boolean;
  readonly caveats: Caveat[];
}

export interface SessionElsewhere {
  /** `pid start` */
  readonly key: string;
  /** OID. */
  readonly database: number;
  readonly name: string;
  /** The command's process that opened it, in words; null if it is somebody else's. */
  readonly process: string | null;
}

const NO_CONTACTS: Contacts = {
  ...{ targetConnections: [], others: [], elsewhere: [] },
  ...{ dialled: true, caveats: [] },
};

/** Runs the command under that watch; a contact ends it. */
export async function runWatched(
  run: RunOptions,
  { control, target }: Pick<ContactOptions, 'control' | 'target'>,
): Promise<{ result: CommandResult } & Contacts> {
  const contacted = new AbortController();
  // Read before the command runs: it may connect at once.
  const [[now], isDirect, machine] = await Promise.all([
    control.query<{ now: string }>(NOW),
    seesOurPorts(control),
    MachineConnections.since(target.settings.hosts[0]?.port ?? 0),
  ]);
  const since = now?.now ?? '-infinity';
  let watch: ContactWatch | undefined;
  const result = await runCommand({
    ...run,
    signal: AbortSignal.any([contacted.signal, ...(run.signal ? [run.signal] : [])]),
    onStart: (family) => {
      const onContact = () => contacted.abort();
      watch = watchContact({ control, target, since, isDirect, machine, family, onContact });
    },
  });
  return { result, ...((await watch?.stop()) ?? NO_CONTACTS) };
}

interface ContactOptions {
  readonly control: Session;
  readonly target: Target;
  /** A moment of the server's clock before the command ran. */
  readonly since: string;
  /** The server sees the ports of this machine as they are. */
  readonly isDirect: boolean;
  readonly machine: MachineConnections;
  readonly family: ProcessFamily;
  /** Called once, at the first contact. */
  readonly onContact: () => void;
}

interface Row {
  pid: number;
  /** OID. */
  database: string;
  name: string;
  user: string | null;
  application: string;
  address: string | null;
  port: number | null;
  query: string | null;
  started: string;
}

/** Sessions that began after the given moment; the exact time of the beginning tells a pid from a later one. */
const NEWCOMERS = `
SELECT pid, datid::int8 AS database, datname::text AS name, usename::text AS "user", coalesce(application_name, '') AS application, host(client_addr) AS address,
       client_port AS port, nullif(query, '') AS query, to_json(backend_start) #>> '{}' AS started
  FROM pg_stat_activity
 WHERE datid IS NOT NULL AND backend_type = 'client backend' AND backend_start > $1::timestamptz
   AND pid <> ALL ($2::int4[])`;
const NOW = `SELECT to_json(clock_timestamp()) #>> '{}' AS now`;
const END =
  'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2::timestamptz';

const LOOK_EVERY_MS = 100;
/** Ended connections are listed for 60 s. */
const LOOKS_BETWEEN_LISTINGS = 100;

function watchContact(options: ContactOptions): ContactWatch {
  const { control, target, since, machine, family, onContact } = options;
  const [{ port: targetPort } = { port: 0 }] = target.settings.hosts;
  const connections = new Map<string, TargetConnection>();
  const unproved = new Map<string, string>();
  const others = new Set<string>();
  const elsewhere = new Map<string, SessionElsewhere>();
  let looks = 0;
  let failure: string | undefined;

  const look = async () => {
    if (++looks % LOOKS_BETWEEN_LISTINGS === 0) await machine.look();
    const rows = await control.query<Row>(NEWCOMERS, [since, [...ownBackendPids(control.address)]]);
    const known = [connections, unproved, others, elsewhere];
    const news = rows.filter((row) => !known.some((keys) => keys.has(keyOf(row))) && !isPassing(row));
    if (news.length === 0) return;
    const origins = await originsOf(news, family, { isDirect: options.isDirect, targetPort });
    for (const [index, row] of news.entries()) {
      const origin = origins[index];
      if (Number(row.database) !== target.database.oid) {
        const seen = await seenElsewhere(row, origin);
        if (seen) elsewhere.set(seen.key, seen);
      } else if (origin?.kind === 'command') {
        connections.set(keyOf(row), await end(control, row, origin));
        onContact();
      } else if (origin?.kind === 'others') {
        others.add(keyOf(row));
      } else {
        unproved.set(
          keyOf(row),
          `${row.user ?? 'somebody'}, ${row.application || 'no application name'}: ${origin?.why}`,
        );
      }
    }
  };
  const attempt = async () => {
    try {
      await look();
    } catch (error) {
      failure ??= messageOf(error);
    }
  };

  let looking: Promise<void> | undefined;
  const timer = setInterval(() => {
    looking ??= attempt().finally(() => {
      looking = undefined;
    });
  }, LOOK_EVERY_MS);

  return {
    async stop() {
      clearInterval(timer);
      await looking;
      // At once: the kernel takes 11 ms to list its connections.
      await Promise.all([attempt(), machine.look()]);
      return {
        targetConnections: [...connections.values()],
        others: [...others],
        elsewhere: [...elsewhere.values()],
        dialled: machine.found,
        caveats: caveatsOf([...unproved.values()], failure),
      };
    },
  };
}

async function end(
  control: Session,
  row: Row,
  { process: owner, isExact }: Extract<Origin, { kind: 'command' }>,
): Promise<TargetConnection> {
  let ended = isExact;
  try {
    // It may be somebody else's: the command has one like it.
    if (isExact) ended = (await control.query(END, [row.pid, row.started])).length > 0;
  } catch {
    // Not allowed (a superuser's session): the command is stopped all the same, and its sessions end with it.
    ended = false;
  }
  return {
    process: { pid: owner, command: await nameOfProcess(owner) },
    user: row.user,
    application: row.application,
    connectedAt: row.started,
    query: row.query === null ? null : statementWithoutSecrets(row.query),
    ended,
  };
}

/** In a database of a run, which ends with it. */
function isPassing({ name }: Row): boolean {
  return parseOwnedName(name) !== undefined;
}

async function seenElsewhere(row: Row, origin: Origin | undefined): Promise<SessionElsewhere | undefined> {
  if (origin === undefined || origin.kind === 'unknown') return undefined;
  const process = origin.kind === 'command' ? await nameOfProgram(origin.process) : null;
  return { key: keyOf(row), database: Number(row.database), name: row.name, process };
}

function caveatsOf(unproved: string[], failure: string | undefined): Caveat[] {
  const caveats: Caveat[] = [];
  if (unproved.length > 0) {
    const who = unproved.slice(0, 3).join('; ');
    caveats.push({
      path: 'targetConnections',
      kind: 'unmeasured',
      reason: `whether ${unproved.length} new sessions on the target came from the command could not be proved (${who})`,
    });
  }
  if (failure !== undefined) {
    caveats.push({
      path: 'targetConnections',
      kind: 'unmeasured',
      reason: `the target's sessions could not be watched: ${failure}`,
    });
  }
  return caveats;
}

function keyOf({ pid, started }: Row): string {
  return `${pid} ${started}`;
}
