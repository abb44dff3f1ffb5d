import type { ObstacleRule } from './obstacle-rule.ts';

/** Former names of settings, which servers still take. */
const RENAMED = new Set(['sort_mem', 'vacuum_mem', 'ssl_ecdh_curve', 'force_parallel_mode']);

/** Defaults that differ between builds, not versions: places, and what OpenSSL has. */
const OF_BUILDS = /^ssl|\//;

/** How the new server is configured. */
export const CHANGED_SETTINGS: readonly ObstacleRule[] = [
  {
    code: 'SETTING_GONE',
    severity: 'warning',
    message: 'the new version does not know these settings, and does not start with them',
    remedy: 'leave them out of the new postgresql.conf',
    find: ({ ownSettings, installed }) =>
      ownSettings
        .filter((name) => !name.includes('.') && !RENAMED.has(name) && !installed.settings.has(name))
        .map((object) => ({ object })),
  },
  {
    code: 'DEFAULT_CHANGED',
    severity: 'notice',
    message: 'settings that are not set here have another default in the new version',
    remedy: 'set those that matter',
    query: {
      of: 'cluster',
      sql: `SELECT name || '|' || coalesce(boot_val, '') AS object, NULL AS sql FROM pg_settings
 WHERE context <> 'internal' AND setting IS NOT DISTINCT FROM boot_val AND position('.' IN name) = 0 ORDER BY 1`,
    },
    find: ({ rows, installed }) =>
      (rows.get('DEFAULT_CHANGED') ?? []).flatMap(({ object }) => {
        const [name = '', value = ''] = object.split('|');
        const now = installed.settings.get(name);
        if (now === undefined || now === value || OF_BUILDS.test(`${name}|${value}|${now}`)) return [];
        return [{ object: `${name}: ${value} → ${now === '' ? 'none' : now}` }];
      }),
  },
  {
    code: 'MD5_PASSWORD',
    severity: 'notice',
    message: 'MD5 passwords are deprecated from PostgreSQL 18 on, and a later version will not accept them',
    remedy: "set them again with password_encryption = 'scram-sha-256'",
    when: (_, to) => to >= 18,
    query: {
      of: 'cluster',
      sql: `SELECT rolname AS object, NULL AS sql FROM pg_authid WHERE rolpassword LIKE 'md5%' ORDER BY 1`,
    },
  },
  {
    code: 'MD5_LOGIN',
    severity: 'notice',
    message: 'rules of pg_hba.conf name md5, which is deprecated from PostgreSQL 18 on',
    remedy: 'name scram-sha-256 once all passwords are of that kind',
    when: (_, to) => to >= 18,
    find: ({ target }) =>
      (target.loginMethods ?? [])
        .filter(({ method }) => method === 'md5')
        .map(({ rule }) => ({ object: rule })),
  },
  {
    code: 'RADIUS_LOGIN',
    severity: 'warning',
    message: 'rules of pg_hba.conf name radius, which PostgreSQL 19 does not know, and does not start with',
    remedy: 'name another method in the new pg_hba.conf',
    when: (_, to) => to >= 19,
    find: ({ target }) =>
      (target.loginMethods ?? [])
        .filter(({ method }) => method === 'radius')
        .map(({ rule }) => ({ object: rule })),
  },
  {
    code: 'TABLESPACE_IN_DATA',
    severity: 'warning',
    message:
      'tablespaces lie inside the data directory, so that the old one cannot simply be removed afterwards',
    remedy: 'move them out before, or remove the old files one by one',
    find: ({ target }) => target.tablespacesInside.map((object) => ({ object })),
  },
];
