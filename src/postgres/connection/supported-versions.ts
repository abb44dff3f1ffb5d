import { SafemigrateError } from '../../errors.ts';
import { nameHost } from './connection-failures.ts';
import type { HostAndPort } from './connection-settings.ts';

export const OLDEST_MAJOR = 14;
/** The newest version that the tests run on. */
export const NEWEST_MAJOR = 19;

/**
 * Refuses servers other than a supported PostgreSQL, by the parameters reported at login: forks report the version of
 * PostgreSQL they resemble (Redshift 8.0, CockroachDB 13 and a parameter of its own). @throws SafemigrateError `SERVER`
 */
export function refuseUnsupported(reported: ReadonlyMap<string, string>): void {
  const version = reported.get('server_version') ?? '';
  if (reported.has('crdb_version')) throw notPostgres('CockroachDB');
  if (version.endsWith('/bouncer')) throw adminConsole();
  const major = Number.parseInt(version, 10);
  if (major === 8) throw notPostgres('Amazon Redshift or another fork of PostgreSQL 8');
  if (major < OLDEST_MAJOR)
    throw new SafemigrateError(
      'SERVER',
      `The server is PostgreSQL ${version}; safemigrate needs ${OLDEST_MAJOR} or later.`,
      {
        hint: 'Upgrade the server, or rehearse on a copy of the data in a newer one.',
      },
    );
}

/** Returns the doubt about a server_version that the tests do not run on; undefined for the others. */
export function untriedVersion(version: string): string | undefined {
  const major = Number.parseInt(version, 10);
  return major > NEWEST_MAJOR
    ? `not tried with PostgreSQL ${major}: safemigrate knows ${OLDEST_MAJOR} to ${NEWEST_MAJOR}`
    : undefined;
}

/** Refuses to change a server whose version was not tried. @throws SafemigrateError `REFUSED` */
export function refuseUntried(version: string): void {
  const untried = untriedVersion(version);
  if (untried === undefined) return;
  throw new SafemigrateError('REFUSED', `An apply or a swap is ${untried}.`, {
    hint: 'Rehearse the migration, or use a newer safemigrate. Nothing was touched.',
  });
}

export function notPostgres(name: string): SafemigrateError {
  return new SafemigrateError(
    'SERVER',
    `The server speaks PostgreSQL's protocol but is not PostgreSQL: it is ${name}.`,
    { hint: `safemigrate works with PostgreSQL ${OLDEST_MAJOR} to ${NEWEST_MAJOR}.` },
  );
}

export function pooler(address: HostAndPort): SafemigrateError {
  return new SafemigrateError(
    'SERVER',
    `A connection pooler (such as PgBouncer) stands between us and the server: ${nameHost(address)} is not the server itself.`,
    {
      hint: "Give the server's direct address, as migration tools need it too; hosted services show it beside the pooled one.",
    },
  );
}

function adminConsole(): SafemigrateError {
  return new SafemigrateError('SERVER', "This is PgBouncer's own console, not a database.", {
    hint: "Give the server's direct address and the database's name.",
  });
}
