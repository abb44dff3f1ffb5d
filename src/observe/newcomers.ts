import type { ProcessSocket } from '../command/process-sockets.ts';
import type { Session } from '../postgres/connection/session.ts';
import { COUNTS_AT_ONCE } from '../postgres/connection/supported-versions.ts';

interface Row {
  pid: number;
  key: string;
  ours: boolean;
  address: string | null;
  port: number | null;
  idle: boolean;
}

/** Sessions outside the clone that began after a moment of the server's clock. */
const NEWCOMERS = `
SELECT pid, pid || ' ' || backend_start AS key, application_name LIKE 'safemigrate %' AS ours,
       host(client_addr) AS address, client_port AS port, state LIKE 'idle%' AS idle
  FROM pg_stat_activity
 WHERE datid <> $1 AND backend_type = 'client backend' AND backend_start > $2::timestamptz`;
const COUNTED = `
SELECT coalesce(sum(sessions), 0)::int8 AS count FROM pg_stat_database WHERE datid <> 0 AND datid <> $1`;

export interface NewcomersOptions {
  /** A session on the target's server. */
  readonly control: Session;
  readonly versionNum: number;
  /** What goes on in there is seen by the proxy. */
  readonly cloneOid: number;
  /** This moment, by the server's clock. */
  readonly since: string;
}

/**
 * Whether the command may have had a session on the target's server past the proxy: roles and settings can be changed
 * from any database. The server counts every session; the command has had none if each of those was looked at while
 * it was there, and is not among the sockets of the command's processes.
 */
export class Newcomers {
  readonly #options: NewcomersOptions;
  readonly #countedBefore: number;
  /** Seen once, and not among the command's sockets then. */
  readonly #candidates = new Set<string>();
  /** Proved to be somebody else's → their process ids. */
  readonly #others = new Map<string, number>();
  #own = false;

  private constructor(options: NewcomersOptions, countedBefore: number) {
    this.#options = options;
    this.#countedBefore = countedBefore;
  }

  /** To be called right before the command starts. */
  static async begin(options: NewcomersOptions): Promise<Newcomers> {
    return new Newcomers(options, await count(options));
  }

  /** Looks at who is there now. @param sockets of the command's processes, asked for where somebody is new. */
  async look(sockets: () => Promise<readonly ProcessSocket[]>): Promise<void> {
    const { control, cloneOid, since } = this.#options;
    const rows = await control.query<Row>(NEWCOMERS, [cloneOid, since]);
    for (const { pid, key, ours, idle } of rows) {
      // An idle session ends with its client, which therefore was there when the sockets were read.
      if (ours || (idle && this.#candidates.has(key))) this.#others.set(key, pid);
    }
    const news = rows.filter(({ key, port }) => !this.#others.has(key) && port !== null && port > 0);
    if (news.length === 0) return;
    const known = await sockets();
    for (const { key, address, port } of news) {
      const own = known.some((socket) => socket.address === address && socket.port === port);
      if (own) this.#own = true;
      else this.#candidates.add(key);
    }
  }

  /**
   * Whether none of them can have been the command's. To be asked after the command, before we come to the target.
   * @param throughProxy process ids of the sessions that came through the proxy.
   */
  async areOthers(throughProxy: readonly number[]): Promise<boolean> {
    if (this.#own || this.#options.versionNum < COUNTS_AT_ONCE) return false;
    const came = (await count(this.#options)) - this.#countedBefore;
    const others = [...this.#others.values()].filter((pid) => !throughProxy.includes(pid));
    return came - throughProxy.length <= others.length;
  }
}

async function count({ control, cloneOid }: NewcomersOptions): Promise<number> {
  const [row] = await control.query<{ count: string }>(COUNTED, [cloneOid]);
  return Number(row?.count ?? 0);
}
