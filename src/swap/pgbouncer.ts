import { Client } from 'pg';
import { messageOf, SafemigrateError } from '../errors.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import { identifier } from '../postgres/sql/quote.ts';

/** A PgBouncer whose clients wait instead of failing while the database that they are led to is exchanged. */
export interface PausedPooler {
  /** The names under which it offers the target. */
  readonly aliases: readonly string[];
  /** Lets its clients go on. Harmless where nothing is paused. */
  resume(): Promise<void>;
}

/** PAUSE waits for open transactions, and in session pooling for idle clients: its own limit ends that. */
const PAUSE_MS = 2_000;
const CONNECT_MS = 5_000;

interface Alias {
  readonly name: string;
  readonly database: string;
  readonly port: string | number | null;
  readonly paused: string | number;
}

/** What a PgBouncer knows of the target: it may call the server by a name of its own. */
export interface Pooled {
  readonly database: string;
  readonly port: number;
}

async function aliasesOf(client: Client, target: Pooled): Promise<Alias[]> {
  const { rows } = await client.query<Alias>('SHOW DATABASES');
  return rows.filter(
    ({ database, port }) => database === target.database && (port === null || Number(port) === target.port),
  );
}

/**
 * Pauses every alias of the target. What was paused is resumed again when it does not succeed.
 * @param admin leads to the admin console (`/pgbouncer`).
 * @throws SafemigrateError `CONNECTION`; `REFUSED` where the clients did not pause in time.
 */
export async function pausePooler(admin: ConnectionSettings, target: Pooled): Promise<PausedPooler> {
  const aliases = await withConsole(admin, async (client) =>
    (await aliasesOf(client, target)).map(({ name }) => name),
  );
  const resume = async () => {
    await resumePooler(admin, target);
  };
  if (aliases.length === 0)
    throw new SafemigrateError(
      'REFUSED',
      `The PgBouncer does not lead to ${target.database} on port ${target.port}.`,
      {
        hint: 'Nothing was touched. Leave --pgbouncer out, or name the console of the one that does.',
      },
    );
  try {
    for (const alias of aliases) await pause(admin, alias);
  } catch (error) {
    await resume();
    throw error;
  }
  return { aliases, resume };
}

/**
 * Lets the clients of every alias of the target go on, whoever has paused them.
 * @returns all aliases, and those that had been paused. @throws SafemigrateError `CONNECTION`.
 */
export async function resumePooler(
  admin: ConnectionSettings,
  target: Pooled,
): Promise<{ aliases: string[]; resumed: string[] }> {
  return withConsole(admin, async (client) => {
    const aliases = await aliasesOf(client, target);
    const resumed = aliases.filter(({ paused }) => Number(paused) === 1).map(({ name }) => name);
    for (const name of resumed) await client.query(`RESUME ${identifier(name)}`);
    return { aliases: aliases.map(({ name }) => name), resumed };
  });
}

/** Its `host:port`. */
export function nameConsole({ hosts: [place] }: ConnectionSettings): string {
  return `${place?.host}:${place?.port}`;
}

async function pause(admin: ConnectionSettings, alias: string): Promise<void> {
  await withConsole(admin, async (client) => {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(
        () =>
          reject(
            new SafemigrateError(
              'REFUSED',
              `The clients of PgBouncer's ${alias} did not pause within ${PAUSE_MS} ms.`,
              {
                hint: 'It waits for transactions that are open, and in session pooling for every client. Nothing was swapped.',
              },
            ),
          ),
        PAUSE_MS,
      );
    });
    try {
      await Promise.race([client.query(`PAUSE ${identifier(alias)}`), late]);
    } finally {
      clearTimeout(timer);
    }
  });
}

/** The console speaks the simple protocol, and takes none of the settings that our sessions on servers begin with. */
async function withConsole<T>(settings: ConnectionSettings, use: (client: Client) => Promise<T>): Promise<T> {
  const [place] = settings.hosts;
  const client = new Client({
    host: place?.host,
    port: place?.port,
    user: settings.user,
    password: settings.password,
    database: 'pgbouncer',
    connectionTimeoutMillis: CONNECT_MS,
  });
  // A console that ends while its PAUSE is given up is not an error of the process.
  client.on('error', () => {});
  try {
    await client.connect();
  } catch (cause) {
    throw new SafemigrateError('CONNECTION', `PgBouncer's console cannot be reached: ${messageOf(cause)}.`, {
      cause,
      hint: 'Nothing was swapped. The URL names the database pgbouncer, and a user of admin_users.',
    });
  }
  try {
    return await use(client);
  } finally {
    void client.end().catch(() => {});
  }
}
