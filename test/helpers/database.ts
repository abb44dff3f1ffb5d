import { randomBytes } from 'node:crypto';
import type { ServerVersion } from '../../src/local-server/binaries.ts';
import { identifier } from '../../src/postgres/sql/quote.ts';
import { withClient } from './client.ts';
import { serverUrl } from './servers.ts';

export { withClient } from './client.ts';

export interface TemporaryDatabase {
  readonly name: string;
  readonly version: ServerVersion;
  /** A superuser's. */
  readonly url: string;
  /** Ends its sessions. Idempotent; at the latest it happens after the test file. */
  drop(): Promise<void>;
}

/** What this test file has made so far, for the search for leftovers. */
export const made = new Map<string, TemporaryDatabase>();

/**
 * A database for one test, empty but for what `template` holds.
 * @param options.name taken as it is, so it has to be unique in the whole test run; made up when missing.
 * @param options.sql run in the new database.
 */
export async function temporaryDatabase(
  version: ServerVersion,
  options: { name?: string; template?: string; sql?: string } = {},
): Promise<TemporaryDatabase> {
  const name = options.name ?? `test_${randomBytes(6).toString('hex')}`;
  const server = serverUrl(version);
  const url = new URL(server);
  url.pathname = `/${encodeURIComponent(name)}`;
  const database: TemporaryDatabase = {
    name,
    version,
    url: url.href,
    async drop() {
      await withClient(server, (client) =>
        client.query(`DROP DATABASE IF EXISTS ${identifier(name)} WITH (FORCE)`),
      );
    },
  };
  const template = options.template === undefined ? '' : ` TEMPLATE ${identifier(options.template)}`;
  await withClient(server, (client) => client.query(`CREATE DATABASE ${identifier(name)}${template}`));
  made.set(`${version} ${name}`, database);
  const { sql } = options;
  if (sql !== undefined) await withClient(database.url, (client) => client.query(sql));
  return database;
}
