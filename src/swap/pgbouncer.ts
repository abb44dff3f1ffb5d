import type { Client } from 'pg';
import { messageOf, SafemigrateError } from '../errors.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import { pg } from '../postgres/connection/pg.ts';
import { endsWithin, waitUntil } from '../postgres/session-helpers.ts';
import { identifier } from '../postgres/sql/quote.ts';

/** PAUSE waits for open transactions, and in session pooling for idle clients, without a time limit of its own. */
const PAUSE_MS = 2_000;
const CONNECT_MS = 5_000;
const DISCONNECT_MS = 1_000;
const LOGIN_POLL_MS = 5;

/** The target as a PgBouncer's configuration names it; the host may have another name there. */
export interface PooledTarget {
  readonly database: string;
  readonly port: number;
}

async function aliasesOf(client: Client, target: PooledTarget) {
  const { rows } = await client.query<{
    name: string;
    database: string;
    port: string | number | null;
    paused: string | number;
    /** The setting of the alias, or else of all; absent before 1.17. */
    min_pool_size?: string | number;
  }>('SHOW DATABASES');
  return rows.filter(
    ({ database, port }) => database === target.database && (port === null || Number(port) === target.port),
  );
}

/**
 * Pauses every alias of the target, so that clients wait, instead of failing, while it is exchanged. If one cannot be paused, it
 * resumes the others.
 *
 * PAUSE breaks off a login that is under way, which PgBouncer then takes for a failed one: after RESUME, clients fail or wait for
 * `server_login_retry` (15 s). So nothing may log in when it is sent, nor while it lasts, as for `min_pool_size`
 * (per_loop_pause and check_pool_size of its janitor.c, seen with 1.18).
 * @param admin settings of the admin console (database `pgbouncer`).
 * @param timeoutMs for each alias.
 * @returns a function that sends RESUME for each alias that is paused.
 * @throws SafemigrateError `CONNECTION`; `REFUSED` if the clients did not pause in time.
 */
export async function pausePooler(
  admin: ConnectionSettings,
  target: PooledTarget,
  timeoutMs: number = PAUSE_MS,
): Promise<() => Promise<void>> {
  const found = await withConsole(admin, (client) => aliasesOf(client, target));
  const aliases = found.map(({ name }) => name);
  const refilled = found.find((alias) => Number(alias.min_pool_size ?? 0) > 0);
  const resume = async () => void (await resumePooler(admin, target));
  if (aliases.length === 0)
    throw new SafemigrateError(
      'REFUSED',
      `This PgBouncer has no alias of ${target.database} on port ${target.port}.`,
      {
        hint: 'Nothing was touched. Leave out --pgbouncer, or name the console of a PgBouncer that has one.',
      },
    );
  if (refilled)
    throw new SafemigrateError(
      'REFUSED',
      `PgBouncer's ${refilled.name} has min_pool_size = ${refilled.min_pool_size}: it connects while it is paused, is refused, and clients then see errors for server_login_retry (15 s).`,
      {
        hint: "Nothing was touched. Send SET min_pool_size = '0' to its console (or change it for this database), and set it back after the swap.",
      },
    );
  try {
    for (const alias of aliases) await pause(admin, alias, timeoutMs);
  } catch (error) {
    await resume();
    throw error;
  }
  return resume;
}

/**
 * Resumes every alias of the target that is paused, whoever has paused it.
 * @returns all aliases, and those that it resumed. @throws SafemigrateError `CONNECTION`.
 */
export async function resumePooler(
  admin: ConnectionSettings,
  target: PooledTarget,
): Promise<{ aliases: string[]; resumed: string[] }> {
  return withConsole(admin, async (client) => {
    const aliases = await aliasesOf(client, target);
    const resumed = aliases.filter(({ paused }) => Number(paused) === 1).map(({ name }) => name);
    for (const name of resumed) await client.query(`RESUME ${identifier(name)}`);
    return { aliases: aliases.map(({ name }) => name), resumed };
  });
}

/** Settings with which a role of the target would log in to it behind PgBouncer. @throws SafemigrateError `CONNECTION`. */
export async function loginBehind(
  admin: ConnectionSettings,
  target: PooledTarget,
  { user, password, database }: ConnectionSettings,
): Promise<ConnectionSettings> {
  const [alias] = await withConsole(admin, (client) => aliasesOf(client, target));
  const { password: _, ...place } = admin;
  return {
    ...place,
    user,
    ...(password === undefined ? {} : { password }),
    database: alias?.name ?? database,
  };
}

/** Reads how the connections of a user are pooled who is logged in: `session`, `transaction` or `statement`. */
export async function poolModeOf(
  admin: ConnectionSettings,
  { user, database }: Pick<ConnectionSettings, 'user' | 'database'>,
): Promise<string | undefined> {
  return withConsole(admin, async (client) => {
    const { rows } = await client.query<{ database: string; user: string; pool_mode: string }>('SHOW POOLS');
    return rows.find((pool) => pool.database === database && pool.user === user)?.pool_mode;
  });
}

/** Formats the `host:port` of a console. */
export function nameConsole({ hosts: [place] }: ConnectionSettings): string {
  return `${place?.host}:${place?.port}`;
}

async function pause(admin: ConnectionSettings, alias: string, timeoutMs: number): Promise<void> {
  await withConsole(admin, async (client) => {
    await noLogins(client, alias, timeoutMs);
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(
        () =>
          reject(
            new SafemigrateError(
              'REFUSED',
              `The clients of PgBouncer's ${alias} did not pause within ${timeoutMs} ms.`,
              {
                hint: 'PAUSE waits for open transactions, and in session pooling for every client. Nothing was swapped.',
              },
            ),
          ),
        timeoutMs,
      );
    });
    try {
      await Promise.race([client.query(`PAUSE ${identifier(alias)}`), late]);
    } finally {
      clearTimeout(timer);
    }
  });
}

/**
 * Waits until no connection of the alias to the server is being made, and at first until no client waits, for which one may be made at
 * any moment.
 * @throws SafemigrateError `REFUSED` if it takes too long.
 */
async function noLogins(client: Client, alias: string, timeoutMs: number): Promise<void> {
  const poolsOf = async () => {
    const { rows } = await client.query<Record<'database' | 'sv_login' | 'cl_waiting', string>>('SHOW POOLS');
    return rows.filter(({ database }) => database === alias);
  };
  const none = async (counts: readonly ('sv_login' | 'cl_waiting')[]) =>
    (await poolsOf()).every((pool) => counts.every((count) => Number(pool[count]) === 0));
  const limits = { everyMs: LOGIN_POLL_MS, timeoutMs: timeoutMs / 2 };
  // Where all connections are in use, clients wait all the time.
  const isQuiet =
    (await waitUntil(() => none(['sv_login', 'cl_waiting']), limits)) ||
    (await waitUntil(() => none(['sv_login']), limits));
  if (!isQuiet)
    throw new SafemigrateError(
      'REFUSED',
      `PgBouncer has been logging in to the server for ${alias} all the time, for ${timeoutMs} ms.`,
      {
        hint: 'Nothing was swapped. A pause would break a login off, and clients would see errors. Is max_connections reached, or a login slow?',
      },
    );
}

/** Uses pg directly: the console speaks the simple protocol only, and rejects the settings that our own sessions start with. */
async function withConsole<T>(settings: ConnectionSettings, use: (client: Client) => Promise<T>): Promise<T> {
  const [place] = settings.hosts;
  const client = new pg.Client({
    host: place?.host,
    port: place?.port,
    user: settings.user,
    password: settings.password,
    database: 'pgbouncer',
    connectionTimeoutMillis: CONNECT_MS,
  });
  // A connection that breaks rejects the query under way; without a listener the event would end the process, too.
  client.on('error', () => {});
  try {
    await client.connect();
  } catch (cause) {
    throw new SafemigrateError('CONNECTION', `Cannot connect to PgBouncer's console: ${messageOf(cause)}.`, {
      cause,
      hint: 'Nothing was swapped. The URL must name the database pgbouncer and a user listed in admin_users.',
    });
  }
  try {
    return await use(client);
  } finally {
    await endsWithin(client.end(), DISCONNECT_MS);
  }
}
