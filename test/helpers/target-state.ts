import type { ServerVersion } from '../../src/local-server/binaries.ts';
import { openSession } from '../../src/postgres/connection/connect.ts';
import { parseSettings } from '../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../src/postgres/connection/environment.ts';
import type { Session } from '../../src/postgres/connection/session.ts';
import { identifier } from '../../src/postgres/sql/quote.ts';
import { catalogueDigest } from '../../src/proof/catalogue-digest.ts';
import { fingerprint } from '../../src/schema/compare-schemas.ts';
import { takeSnapshot } from '../../src/schema/schema-facts.ts';
import { withClient } from './client.ts';
import { serverUrl } from './servers.ts';

/** Equal as long as nothing whatever was done to the schema of the database, not even undone again. */
export const digestOf = (url: string) => withSession(url, catalogueDigest);

/** Equal for databases with the same schema. */
export const fingerprintOf = (url: string) =>
  withSession(url, async (session) => fingerprint(await takeSnapshot(session)));

async function withSession<T>(url: string, use: (session: Session) => Promise<T>): Promise<T> {
  const session = await openSession(parseSettings(url, readEnvironment({}, '.')), { purpose: 'test' });
  try {
    return await use(session);
  } finally {
    await session.close();
  }
}

/** Clones of the database that are on the server now. */
export async function clonesOf(version: ServerVersion, name: string): Promise<string[]> {
  return withClient(serverUrl(version), async (client) => {
    const { rows } = await client.query<{ datname: string }>(
      `SELECT datname FROM pg_database WHERE starts_with(datname, $1) ORDER BY 1`,
      [`${name}_rehearsal_`],
    );
    return rows.map(({ datname }) => datname);
  });
}

/** Of a server that other tests share: `clean` there would take theirs too. */
export async function dropDatabase(version: ServerVersion, name: string): Promise<void> {
  await withClient(serverUrl(version), (client) =>
    client.query(`DROP DATABASE IF EXISTS ${identifier(name)} WITH (FORCE)`),
  );
}

/** The same server's URL with another database. */
export function withDatabase(url: string, name: string): string {
  const changed = new URL(url);
  changed.pathname = `/${encodeURIComponent(name)}`;
  return changed.href;
}
