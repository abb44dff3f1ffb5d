import { FIRST_USER_OID } from '../../postgres/catalogue/user-objects.ts';
import { identifier } from '../../postgres/sql/quote.ts';
import type { Found, ObstacleRule, UpgradeFacts } from './obstacle-rule.ts';

/** Extensions as `name|version|database`, to be compared with the new installation. */
const EXTENSIONS = `
SELECT extname || '|' || extversion || '|' || current_database() AS object, NULL AS sql FROM pg_extension ORDER BY 1`;

/** Functions in C as `library|extension|database: function`; one function for each library of an extension. */
const LIBRARIES = `
SELECT DISTINCT ON (probin, coalesce(e.extname, p.oid::text))
       concat_ws('|', probin, coalesce(e.extname, ''), current_database() || ': ' || coalesce('extension ' || e.extname, p.oid::regprocedure::text)) AS object,
       CASE WHEN e.oid IS NULL THEN format('DROP FUNCTION %s;', p.oid::regprocedure) END AS sql
  FROM pg_proc p LEFT JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
  LEFT JOIN pg_extension e ON e.oid = d.refobjid
 WHERE p.oid >= ${FIRST_USER_OID} AND probin IS NOT NULL`;

/** Collations whose recorded version is not that of the library, with the number of indexes that use them. OID 100 is the database's default. */
const COLLATIONS = `
WITH collations AS (
  SELECT 100::oid AS oid, 'its own collation' AS name, datcollversion AS was, pg_database_collation_actual_version(oid) AS now,
         format('ALTER DATABASE %I REFRESH COLLATION VERSION;', datname) AS refresh
    FROM pg_database WHERE datname = current_database()
  UNION ALL
  SELECT oid, 'collation ' || oid::regcollation, collversion, pg_collation_actual_version(oid),
         format('ALTER COLLATION %s REFRESH VERSION;', oid::regcollation)
    FROM pg_collation),
changed AS (
  SELECT *, (SELECT count(*) FROM pg_index i WHERE c.oid = ANY (i.indcollation) AND i.indexrelid >= ${FIRST_USER_OID}) AS indexes
    FROM collations c WHERE was IS DISTINCT FROM now)
SELECT format('%s: %s, %s → %s, indexes to rebuild: %s', current_database(), name, coalesce(was, 'none'), coalesce(now, 'none'), indexes) AS object,
       refresh AS sql
  FROM changed WHERE indexes > 0 OR oid = 100 ORDER BY 1`;

/** By name through JSON: before version 15 databases have no provider. */
const OF_ICU = `
SELECT current_database() AS object,
       format('CREATE DATABASE %I TEMPLATE template0 ENCODING %L LOCALE_PROVIDER libc LC_COLLATE %L LC_CTYPE %L;',
         datname || '_libc', pg_encoding_to_char(encoding), datcollate, datctype) AS sql
  FROM pg_database d WHERE datname = current_database() AND to_jsonb(d) ->> 'datlocprovider' = 'i'
UNION ALL
SELECT current_database() || ': collation ' || oid::regcollation, NULL
  FROM pg_collation WHERE collprovider = 'i' AND oid >= ${FIRST_USER_OID} ORDER BY 1`;

/** Options of columns that pg_dump writes. Debian's 15.20 gives one of its own, pg_attver, to every column. */
const COLUMN_OPTIONS = `
SELECT DISTINCT split_part(option, '=', 1) AS object, NULL AS sql
  FROM pg_attribute CROSS JOIN unnest(attoptions) AS option WHERE attrelid >= ${FIRST_USER_OID} ORDER BY 1`;
const COMMON_OPTIONS = ['n_distinct', 'n_distinct_inherited'];

/** Parts that the new installation lacks, or has in another version. */
export const INSTALLED_PARTS: readonly ObstacleRule[] = [
  {
    code: 'INITDB_FAILED',
    severity: 'error',
    message: 'initdb of the new version cannot make a cluster with the properties of the old one',
    remedy: 'install what it names: a locale of the operating system, or a build of PostgreSQL with ICU',
    find: ({ initdbRefusal }) => (initdbRefusal === null ? [] : [{ object: initdbRefusal }]),
  },
  {
    code: 'MINOR_RELEASE_OLDER',
    severity: 'warning',
    message:
      "the new version's minor release is older than the old one's: its programs may not know what the old version's write",
    remedy: 'upgrade the new installation to its newest minor release',
    rate: ({ modes }) => (modes.some(({ outcome }) => outcome === 'failed') ? 'error' : 'warning'),
    find: ({ releases: { from, to } }) => {
      const [old, fresh] = [roundOf(from), roundOf(to)];
      return old !== null && fresh !== null && fresh < old ? [{ object: `${from} → ${to}` }] : [];
    },
  },
  {
    code: 'COLUMN_OPTION_UNKNOWN',
    severity: 'error',
    message:
      'columns of the old cluster have an option that the new installation does not know, so that it cannot restore their tables',
    remedy: 'install the new version from the packages of the old one, in their newest release',
    query: { of: 'each database', sql: COLUMN_OPTIONS },
    find: ({ rows, installed }) => {
      const names = (rows.get('COLUMN_OPTION_UNKNOWN') ?? []).map(({ object }) => object);
      const unknown = [...new Set(names)].filter((name) => !COMMON_OPTIONS.includes(name));
      return unknown.filter((name) => !installed.columnOptions.has(name)).map((object) => ({ object }));
    },
  },
  {
    code: 'ICU_MISSING',
    severity: 'error',
    message:
      'the new installation was built without ICU, and databases or collations of the old cluster use it',
    remedy:
      'install a build of the new version with ICU, or move these databases by pg_dump and pg_restore into others of the provider libc, and give columns other collations',
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
    query: { of: 'each database', sql: LIBRARIES },
    find: librariesMissing,
  },
  {
    code: 'COLLATION_CHANGED',
    severity: 'warning',
    message: 'the libraries sort differently than when these were created: indexes on text may be wrong',
    remedy: 'rebuild the indexes (reindexdb), then refresh the version',
    when: (from) => from >= 15,
    query: { of: 'each database', sql: COLLATIONS, again: true },
  },
  {
    code: 'UNICODE_CHANGED',
    severity: 'warning',
    message:
      'the new version has another version of Unicode, so the builtin provider may sort and change letters differently',
    remedy: 'rebuild the indexes, and look for rows that constraints no longer permit',
    file: 'unicode_dependent_rels.txt',
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

/**
 * The minor release of version 14 that came out on the same day as the first one of each version, or last before it. All versions
 * get their minor releases together: https://www.postgresql.org/docs/release/
 */
const FIRST_ROUNDS: Readonly<Record<string, number>> = { 14: 0, 15: 5, 16: 9, 17: 13, 18: 19, 19: 25 };

/** Numbers the days on which minor releases came out, the same for all versions; null if it is not known. */
function roundOf(version: string): number | null {
  const [, major = '', minor] = /^(\d+)\.(\d+)/.exec(version) ?? [];
  const first = FIRST_ROUNDS[major];
  return first === undefined || minor === undefined ? null : first + Number(minor);
}

/** Without those of extensions that are missing as a whole; and what pg_upgrade cannot load although it is there. */
function librariesMissing({ missingLibraries, rows, files, installed }: UpgradeFacts): Found[] {
  const uses = (rows.get('LIBRARY_MISSING') ?? []).map(({ object, sql }) => ({ ...libraryUse(object), sql }));
  const functions = uses
    .filter(({ library }) => installed.absentLibraries.has(library))
    .filter(({ extension }) => extension === '' || installed.extensions.has(extension))
    .map(({ library, place, sql }) => ({ object: `${place} needs ${library}`, sql }));
  const unloadable = (files.get('loadable_libraries.txt') ?? [])
    .flatMap((line) => /could not load library "([^"]+)"/.exec(line)?.[1] ?? [])
    .filter((library) => !installed.absentLibraries.has(library));
  return [
    ...missingLibraries.map((name) => ({ object: `${name}, of shared_preload_libraries` })),
    ...functions,
    ...unloadable.map((object) => ({ object })),
  ];
}

/** Parts of a row of LIBRARIES; the extension is empty if the function belongs to none. */
function libraryUse(object: string) {
  const [library = '', extension = '', ...place] = object.split('|');
  return { library, extension, place: place.join('|') };
}

/** The libraries that functions of the old cluster name. */
export function librariesIn(rows: UpgradeFacts['rows']): string[] {
  const uses = rows.get('LIBRARY_MISSING') ?? [];
  return [...new Set(uses.map(({ object }) => libraryUse(object).library))];
}
