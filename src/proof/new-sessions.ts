import { nameOfProcess, nameOfProgram } from '../command/process-sockets.ts';
import type { Target } from '../database/target.ts';
import type { Caveat, TargetConnection } from '../model/report.ts';
import { parseOwnedName } from '../ownership/mark.ts';
import type { Session } from '../postgres/connection/session.ts';
import { statementWithoutSecrets } from '../postgres/sql/statement-secrets.ts';
import type { Origin } from './session-origin.ts';

/** Sessions on the target's server that began while a command ran. They are named by `pid start`. */
export interface Contacts {
  readonly targetConnections: readonly TargetConnection[];
  /** Sessions in the target that were seen to be somebody else's. */
  readonly others: readonly string[];
  /** Sessions in the target of processes that accept connections themselves, so that the command may have worked through them. */
  readonly relayed: readonly {
    readonly key: string;
    /** The process, in words. */
    readonly process: string;
    /** It was there before the command, and something was sent over it since. */
    readonly isOlder: boolean;
  }[];
  /** Sessions whose author could not be found. */
  readonly doubtful: readonly { readonly key: string; readonly who: string }[];
  /** Which of all these the server does not count: those for replication. */
  readonly walsenders: readonly string[];
  /** Sessions in other databases of the server whose origin was seen. */
  readonly elsewhere: readonly SessionElsewhere[];
  /** A process of this machine other than ours connected to the server over TCP, or that cannot be seen. */
  readonly dialled: boolean;
  /** How many of these connections belong to no session that was seen. */
  readonly stray: number;
  readonly caveats: Caveat[];
}

export interface SessionElsewhere {
  readonly key: string;
  /** OID. */
  readonly database: number;
  readonly name: string;
  /** The command's process that opened it, in words; null if it is somebody else's. */
  readonly process: string | null;
  /** The process of somebody else's that accepts connections itself, in words. */
  readonly relay: string | null;
  /** The server does not count it. */
  readonly isWalsender: boolean;
}

export const NO_CONTACTS: Contacts = {
  targetConnections: [],
  others: [],
  relayed: [],
  doubtful: [],
  walsenders: [],
  elsewhere: [],
  dialled: false,
  stray: 0,
  caveats: [],
};

/** Puts together what was seen in several runs. */
export function joinContacts(all: readonly Contacts[]): Contacts {
  return {
    targetConnections: all.flatMap(({ targetConnections }) => targetConnections),
    others: all.flatMap(({ others }) => others),
    relayed: all.flatMap(({ relayed }) => relayed),
    doubtful: all.flatMap(({ doubtful }) => doubtful),
    walsenders: all.flatMap(({ walsenders }) => walsenders),
    elsewhere: all.flatMap(({ elsewhere }) => elsewhere),
    dialled: all.some(({ dialled }) => dialled),
    stray: all.reduce((sum, { stray }) => sum + stray, 0),
    caveats: all.flatMap(({ caveats }) => caveats),
  };
}

/** A session as the watch lists it. */
export interface SessionRow {
  pid: number;
  /** OID; 0 for physical replication, which is in no database. */
  database: string;
  name: string;
  isWalsender: boolean;
  user: string | null;
  application: string;
  address: string | null;
  port: number | null;
  query: string | null;
  started: string;
}

const END =
  'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2::timestamptz';

/** The sessions that the watch has seen, each once. */
export class NewSessions {
  readonly ports = new Set<number>();
  readonly contacts = {
    targetConnections: [] as TargetConnection[],
    others: [] as string[],
    relayed: [] as Contacts['relayed'][number][],
    doubtful: [] as Contacts['doubtful'][number][],
    walsenders: [] as string[],
    elsewhere: [] as SessionElsewhere[],
  } satisfies Partial<Contacts>;
  readonly #control: Session;
  readonly #targetOid: number;
  readonly #known = new Set<string>();

  constructor(control: Session, target: Target) {
    this.#control = control;
    this.#targetOid = target.database.oid;
  }

  /** Lists the sessions to be looked into. */
  newAmong(rows: readonly SessionRow[]): SessionRow[] {
    for (const { port } of rows) if (port !== null) this.ports.add(port);
    return rows.filter((row) => !this.#known.has(keyOfSession(row)) && !isPassing(row));
  }

  /** @returns true if the command must be ended: it has a session in the target, or one for replication. */
  async add(row: SessionRow, origin: Origin | undefined): Promise<boolean> {
    const { contacts } = this;
    const [key, isPhysical] = [keyOfSession(row), row.database === '0'];
    const isElsewhere = Number(row.database) !== this.#targetOid;
    if (isElsewhere && !isPhysical && origin && origin.kind !== 'unknown') {
      this.#known.add(key);
      contacts.elsewhere.push(await seenElsewhere(row, origin));
      return false;
    }
    // The server counts it by itself, and it may be found out later.
    if (isElsewhere && !row.isWalsender) return false;
    this.#known.add(key);
    // A standby; it cannot write.
    if (isPhysical && (origin?.kind === 'others' || origin?.kind === 'relay')) return false;
    if (row.isWalsender) contacts.walsenders.push(key);
    if (origin?.kind === 'command') contacts.targetConnections.push(await end(this.#control, row, origin));
    else if (origin?.kind === 'others') contacts.others.push(key);
    else if (origin?.kind === 'relay')
      contacts.relayed.push({ key, process: origin.process, isOlder: false });
    else contacts.doubtful.push({ key, who: `${nameOfSession(row)}: ${origin?.why}` });
    return origin?.kind === 'command';
  }
}

function nameOfSession({ user, application }: SessionRow): string {
  return `${user ?? 'somebody'}, ${application || 'no application name'}`;
}

async function end(
  control: Session,
  row: SessionRow,
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
function isPassing({ name }: SessionRow): boolean {
  return parseOwnedName(name) !== undefined;
}

async function seenElsewhere(
  row: SessionRow,
  origin: Exclude<Origin, { kind: 'unknown' }>,
): Promise<SessionElsewhere> {
  const process = origin.kind === 'command' ? await nameOfProgram(origin.process) : null;
  const relay = origin.kind === 'relay' ? origin.process : null;
  const { name, isWalsender } = row;
  return { key: keyOfSession(row), database: Number(row.database), name, process, relay, isWalsender };
}

/** `pid start`: the exact time of the beginning tells a process id from a later one. */
export function keyOfSession({ pid, started }: Pick<SessionRow, 'pid' | 'started'>): string {
  return `${pid} ${started}`;
}
