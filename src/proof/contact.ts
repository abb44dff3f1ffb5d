import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { type ListedSocket, listSockets } from '../command/process-sockets.ts';
import type { ProcessFamily } from '../command/process-tree.ts';
import { type CommandResult, type RunOptions, runCommand } from '../command/run-command.ts';
import type { Target } from '../database/target.ts';
import { messageOf } from '../errors.ts';
import type { Caveat } from '../model/report.ts';
import { isSocketFolder } from '../postgres/connection/link.ts';
import { ownBackendPids, ownPorts } from '../postgres/connection/own-backends.ts';
import type { Session } from '../postgres/connection/session.ts';
import { endsWithin } from '../postgres/session-helpers.ts';
import { type Contacts, keyOfSession, NewSessions, NO_CONTACTS, type SessionRow } from './new-sessions.ts';
import {
  isOwnAddress,
  listeningProcesses,
  type OriginContext,
  originsOf,
  seesOurPorts,
} from './session-origin.ts';

/**
 * Runs the command, and watches for sessions on the target that come from the command itself: a program that
 * ignores the URL it was given and opens its own connection. Such a session is ended at once, and the command with it. It is
 * recognised by its socket, which a process of the command holds; a connection of others is never touched.
 * @param control a session on the target's server.
 */
export async function runWatched(
  run: RunOptions,
  control: Session,
  target: Target,
): Promise<{ result: CommandResult } & Contacts> {
  const contacted = new AbortController();
  const before = await readBefore(control, target);
  let watch: ReturnType<typeof watchContact> | undefined;
  const result = await runCommand({
    ...run,
    signal: AbortSignal.any([contacted.signal, ...(run.signal ? [run.signal] : [])]),
    onStart: (family) => {
      const seen = new NewSessions(control, target);
      watch = watchContact(before, seen, family, () => contacted.abort());
    },
  });
  return { result, ...((await watch?.stop()) ?? { ...NO_CONTACTS, dialled: true }) };
}

/** Reads what the watch starts from: the command may connect at once. A connection that is not listed yet is a session that began since. */
async function readBefore(control: Session, target: Target) {
  const [[now], isDirect] = await Promise.all([control.query<{ now: string }>(NOW), seesOurPorts(control)]);
  const machine = await MachineConnections.since(control, isDirect);
  const origin = { isDirect, targetPort: control.address.port, listening: listeningProcesses() };
  const relays = await findRelays(control, target, origin);
  // By the server's clock.
  return { control, since: now?.now ?? '-infinity', machine, origin, relays };
}

/** Sessions that began after the given moment; the exact time of the beginning tells a pid from a later one. */
const NEWCOMERS = `
SELECT pid, coalesce(datid, 0)::int8 AS database, coalesce(datname::text, '') AS name, backend_type = 'walsender' AS "isWalsender",
       usename::text AS "user", coalesce(application_name, '') AS application, host(client_addr) AS address,
       client_port AS port, nullif(query, '') AS query, to_json(backend_start) #>> '{}' AS started
  FROM pg_stat_activity
 WHERE (datid IS NOT NULL AND backend_type = 'client backend' OR backend_type = 'walsender') AND backend_start > $1::timestamptz
   AND pid <> ALL ($2::int4[])`;
const NOW = `SELECT to_json(clock_timestamp()) #>> '{}' AS now`;
/** Sessions over which nothing was sent after the given moment. */
const IDLE = `SELECT pid, to_json(backend_start) #>> '{}' AS started FROM pg_stat_activity WHERE state_change <= $1::timestamptz`;

const LOOK_EVERY_MS = 100;
/** A look at the sessions takes no longer: without an answer the connection is of no use any more. */
const LONGEST_LOOK_MS = 60_000;
/** Ended connections are listed for 60 s. */
const LOOKS_BETWEEN_LISTINGS = 100;

/**
 * Finds the sessions in the target through which the command may work without one of its own.
 * @returns their processes, which accept connections themselves.
 */
async function findRelays(
  control: Session,
  target: Target,
  origin: OriginContext,
): Promise<ReadonlyMap<string, string>> {
  const all = await control.query<SessionRow>(NEWCOMERS, ['-infinity', [...ownBackendPids(control.address)]]);
  const rows = all.filter(
    ({ database, address, port }) =>
      Number(database) === target.database.oid && port !== null && isOwnAddress(address),
  );
  if (rows.length === 0) return new Map();
  const origins = await originsOf(rows, undefined, origin);
  return new Map(
    rows.flatMap((row, index) => {
      const found = origins[index];
      return found?.kind === 'relay' ? [[keyOfSession(row), found.process] as const] : [];
    }),
  );
}

/** @param onContact called at each contact. */
function watchContact(
  { control, since, machine, origin, relays }: Awaited<ReturnType<typeof readBefore>>,
  seen: NewSessions,
  family: ProcessFamily,
  onContact: () => void,
) {
  let looks = 0;
  let failure: string | undefined;

  const look = async () => {
    if (++looks % LOOKS_BETWEEN_LISTINGS === 0) await machine.look();
    const rows = await control.query<SessionRow>(NEWCOMERS, [since, [...ownBackendPids(control.address)]]);
    const news = seen.newAmong(rows);
    if (news.length === 0) return;
    const origins = await originsOf(news, family, origin);
    for (const [index, row] of news.entries()) {
      const isContact = await seen.add(row, origins[index]);
      if (isContact) onContact();
    }
  };
  const attempt = async () => {
    const looked = look().catch((error: unknown) => {
      failure ??= messageOf(error);
    });
    if (await endsWithin(looked, LONGEST_LOOK_MS)) return;
    // The command may have taken the connection over and read the answer.
    control.abandon(`no answer came for ${LONGEST_LOOK_MS / 1000} s`);
    await looked;
  };

  let looking: Promise<void> | undefined;
  const timer = setInterval(() => {
    looking ??= attempt().finally(() => {
      looking = undefined;
    });
  }, LOOK_EVERY_MS);

  return {
    /** Lists the sessions once more, and ends the watch. */
    async stop(): Promise<Contacts> {
      clearInterval(timer);
      await looking;
      const stray = await machine.countStray(async () => {
        await attempt();
        return seen.ports;
      });
      const { contacts } = seen;
      const older = await usedSince(control, relays, since);
      return {
        ...contacts,
        relayed: [...contacts.relayed, ...older],
        dialled: machine.found,
        stray,
        caveats: failure === undefined ? [] : [unwatched(failure)],
      };
    },
  };
}

/** Leaves out those over which nothing was sent. */
async function usedSince(
  control: Session,
  relays: ReadonlyMap<string, string>,
  since: string,
): Promise<Contacts['relayed']> {
  if (relays.size === 0) return [];
  const idle = await control.query<Pick<SessionRow, 'pid' | 'started'>>(IDLE, [since]).catch(() => []);
  const unused = new Set(idle.map(keyOfSession));
  return [...relays]
    .filter(([key]) => !unused.has(key))
    .map(([key, process]) => ({ key, process, isOlder: true }));
}

function unwatched(failure: string): Caveat {
  const reason = `the target's sessions could not be watched: ${failure}`;
  return { path: 'targetConnections', kind: 'unmeasured', reason };
}

/**
 * Notices TCP connections from this machine to the target's server that are not ours. Whoever ends a connection keeps it as
 * TIME_WAIT for 60 s, so that one of a millisecond is found as well.
 */
export class MachineConnections {
  readonly #port: number;
  readonly #isServer: (address: string) => boolean;
  #before: ReadonlySet<number> = new Set();
  /** Ports of the clients; those that still have a connection are true. */
  readonly #found = new Map<number, boolean>();

  private constructor(port: number, isServer: (address: string) => boolean) {
    this.#port = port;
    this.#isServer = isServer;
  }

  /** Connections that are there already do not count. @param isDirect the server sees our ports as they are. */
  static async since(control: Session, isDirect: boolean): Promise<MachineConnections> {
    const connections = new MachineConnections(
      control.address.port,
      await serverAddresses(control, isDirect),
    );
    connections.#before = new Set((await connections.#foreign()).keys());
    return connections;
  }

  /** One was found, or they cannot be listed here. */
  get found(): boolean {
    return process.platform !== 'linux' || this.#found.size > 0;
  }

  /** To be called at least once a minute, and at the end. */
  async look(): Promise<void> {
    for (const [port, isOpen] of await this.#foreign())
      if (!this.#before.has(port)) this.#found.set(port, isOpen);
  }

  /**
   * Counts the connections that belong to no session. One that is open may be about to log in, and is given some time.
   * @param sessionPorts reads the clients' ports of all sessions that were seen.
   */
  async countStray(sessionPorts: () => Promise<ReadonlySet<number>>): Promise<number> {
    for (let attempt = 1; ; attempt++) {
      await this.look();
      const known = await sessionPorts();
      const stray = [...this.#found].filter(([port]) => !known.has(port));
      if (attempt === LOOKS_AT_LOGIN || stray.every(([, isOpen]) => !isOpen)) return stray.length;
      await delay(LOGIN_PAUSE_MS);
    }
  }

  /** The clients' ends; if the server ended a connection first, it keeps the other end. */
  async #foreign(): Promise<Map<number, boolean>> {
    const own = ownPorts();
    const ends = (await listSockets(process.pid)).flatMap((socket) => this.#clientOf(socket));
    return new Map(ends.filter(([port]) => !own.has(port)));
  }

  #clientOf({ port, address, peerAddress, peerPort, state }: ListedSocket): [number, boolean][] {
    const isOpen = state === 'established';
    if (peerPort === this.#port && this.#isServer(peerAddress)) return [[port, isOpen]];
    const isServerEnd = port === this.#port && peerPort !== 0 && this.#isServer(address);
    return isServerEnd && isOwnAddress(peerAddress) ? [[peerPort, isOpen]] : [];
  }
}

const LOOKS_AT_LOGIN = 10;
const LOGIN_PAUSE_MS = 50;

const SERVER_ADDRESS = 'SELECT host(inet_server_addr()) AS address';

/** Recognises the addresses of the server: another server may listen on the same port elsewhere. */
async function serverAddresses(control: Session, isDirect: boolean): Promise<(address: string) => boolean> {
  const { host } = control.address;
  // A forwarder, such as Docker's, connects to the address that the server itself sees, also for our own sessions.
  const [row] = isDirect ? await control.query<{ address: string | null }>(SERVER_ADDRESS) : [];
  const isName = !isSocketFolder(host) && isIP(host) === 0;
  const named = isName ? await lookup(host, { all: true }).catch(() => []) : [];
  const known = new Set([host, row?.address, ...named.map(({ address }) => address)]);
  // It may listen on each of them.
  const isHere = isSocketFolder(host) || [...known].some((each) => each && isIP(each) && isOwnAddress(each));
  return (address) => known.has(address) || (isHere && isOwnAddress(address));
}
