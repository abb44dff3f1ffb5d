import { identifier } from '../../postgres/sql/quote.ts';
import type { Found, ObstacleRule, UpgradeFacts } from './obstacle-rule.ts';

/** Extensions as `name|version|database`, to be compared with the new installation. */
const EXTENSIONS = `
SELECT extname || '|' || extversion || '|' || current_database() AS object, NULL AS sql FROM pg_extension ORDER BY 1`;

/** By name through JSON: before version 15 databases have no provider. */
const OF_ICU = `
SELECT current_database() AS object, NULL AS sql
  FROM pg_database d WHERE datname = current_database() AND to_jsonb(d) ->> 'datlocprovider' = 'i'
UNION ALL
SELECT current_database() || ': collation ' || oid::regcollation, NULL
  FROM pg_collation WHERE collprovider = 'i' AND oid >= 16384 ORDER BY 1`;

/** What the new installation lacks, or has in another version. */
export const INSTALLED_PARTS: readonly ObstacleRule[] = [
  {
    code: 'INITDB_FAILED',
    severity: 'error',
    message: 'initdb of the new version cannot make a cluster with the properties of the old one',
    remedy: 'install what it names: a locale of the operating system, or a build of PostgreSQL with ICU',
    find: ({ initdbRefusal }) => (initdbRefusal === null ? [] : [{ object: initdbRefusal }]),
  },
  {
    code: 'ICU_MISSING',
    severity: 'error',
    message:
      'the new installation was built without ICU, and databases or collations of the old cluster use it',
    remedy: 'install a build of the new version with ICU',
    query: { of: 'each database', sql: OF_ICU },
    find: ({ rows, installed }) => (installed.icu ? [] : (rows.get('ICU_MISSING') ?? [])),
  },
  {
    code: 'EXTENSION_MISSING',
    severity: 'error',
    message: 'the new installation does not have these extensions',
    remedy: 'install their packages for the new version, or drop them',
    query: { of: 'each database', sql: EXTENSIONS },
    find: ({ rows, installed }) =>
      extensionsIn(rows)
        .filter(({ name }) => !installed.extensions.has(name))
        .map(({ name, version, database }) => ({ object: `${database}: ${name} ${version}` })),
  },
  {
    code: 'LIBRARY_MISSING',
    severity: 'error',
    message: 'the new installation cannot load libraries that functions or settings of the old cluster name',
    remedy: 'install them for the new version, or drop the functions and the setting',
    find: librariesMissing,
  },
  {
    code: 'COLLATION_CHANGED',
    severity: 'warning',
    message: 'the libraries sort differently than when these were created: indexes on text may be wrong',
    remedy: 'rebuild the indexes (reindexdb), then refresh the version',
    when: (from) => from >= 15,
    query: {
      of: 'cluster',
      sql: `SELECT datname AS object, format('ALTER DATABASE %I REFRESH COLLATION VERSION;', datname) AS sql
  FROM pg_database WHERE datcollversion IS DISTINCT FROM pg_database_collation_actual_version(oid) ORDER BY 1`,
    },
  },
  {
    code: 'EXTENSION_UPDATE',
    severity: 'notice',
    message: 'the new installation has newer versions of these extensions',
    remedy: 'update them after the upgrade, in their databases',
    find: ({ rows, installed }) =>
      extensionsIn(rows)
        .filter(({ name, version }) => {
          const newest = installed.extensions.get(name);
          return newest !== undefined && newest !== version;
        })
        .map(({ name, version, database }) => ({
          object: `${database}: ${name} ${version} (there: ${installed.extensions.get(name)})`,
          sql: `ALTER EXTENSION ${identifier(name)} UPDATE;`,
        })),
  },
  {
    code: 'CHECKSUMS_OFF',
    severity: 'notice',
    message: 'the old cluster has no data checksums, and initdb makes them by default from PostgreSQL 18 on',
    remedy:
      'run initdb with --no-data-checksums, or pg_checksums --enable on the old cluster after it was shut down',
    when: (_, to) => to >= 18,
    query: {
      of: 'cluster',
      sql: `SELECT 'the cluster' AS object, NULL AS sql WHERE current_setting('data_checksums') = 'off'`,
    },
  },
];

/** The extensions of all databases. */
function extensionsIn(rows: UpgradeFacts['rows']): { name: string; version: string; database: string }[] {
  return (rows.get('EXTENSION_MISSING') ?? []).map(({ object }) => {
    const [name = '', version = '', ...database] = object.split('|');
    return { name, version, database: database.join('|') };
  });
}

/** Of pg_upgrade's list, without those of extensions that are missing as a whole. */
function librariesMissing({ missingLibraries, files, rows, installed }: UpgradeFacts): Found[] {
  const lines = files.get('loadable_libraries.txt') ?? [];
  const named = lines.flatMap((line) => /could not load library "([^"]+)"/.exec(line)?.[1] ?? []);
  const extensions = extensionsIn(rows).filter(({ name }) => !installed.extensions.has(name));
  const others = named.filter(
    (library) => !extensions.some(({ name }) => library.replace(/^.*\//, '').startsWith(name)),
  );
  return [...missingLibraries.map((name) => `${name}, of shared_preload_libraries`), ...new Set(others)].map(
    (object) => ({ object }),
  );
}
