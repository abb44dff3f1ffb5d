import { FIRST_USER_OID } from '../../postgres/catalogue/user-objects.ts';
import { refusesSetting } from '../new-cluster.ts';
import type { ObstacleRule } from './obstacle-rule.ts';

/** Defaults that differ between builds, not versions: places, and what OpenSSL has. */
const OF_BUILDS = /^ssl|\//;

const SETTINGS_OF_OBJECTS = `
WITH own AS (
  SELECT unnest(s.setconfig) AS setting, CASE WHEN s.setrole = 0 AND s.setdatabase = 0 THEN 'ALTER ROLE ALL'
      WHEN s.setrole = 0 THEN format('ALTER DATABASE %I', d.datname)
      ELSE format('ALTER ROLE %I', r.rolname) || CASE WHEN s.setdatabase = 0 THEN '' ELSE format(' IN DATABASE %I', d.datname) END
    END AS alter
  FROM pg_db_role_setting s LEFT JOIN pg_database d ON d.oid = s.setdatabase LEFT JOIN pg_roles r ON r.oid = s.setrole
 WHERE s.setdatabase = 0 OR d.datname = current_database()
UNION ALL
SELECT unnest(p.proconfig), format('ALTER ROUTINE %s', p.oid::regprocedure) FROM pg_proc p WHERE p.oid >= ${FIRST_USER_OID})
SELECT format('%s (%s)', setting, alter) AS object, format('%s RESET %I;', alter, split_part(setting, '=', 1)) AS sql
  FROM own ORDER BY 1`;

/** How the new server is configured. */
export const CHANGED_SETTINGS: readonly ObstacleRule[] = [
  {
    code: 'SETTING_GONE',
    severity: 'warning',
    message: 'the new version does not know these settings or values, and does not start with them',
    remedy: 'leave them out of the new postgresql.conf',
    find: ({ ownSettings, installed, to }) =>
      [...ownSettings]
        .filter(([name, value]) => refusesSetting(installed.settings, to, name, value))
        .map(([name, value]) => ({ object: installed.settings.has(name) ? `${name} = ${value}` : name })),
  },
  {
    code: 'SETTING_REFUSED',
    severity: 'error',
    message:
      'databases, roles or functions have settings or values that the new version does not know, so that pg_upgrade cannot restore them',
    remedy: 'remove them',
    query: { of: 'each database', sql: SETTINGS_OF_OBJECTS },
    find: ({ rows, installed, to }) => {
      const found = (rows.get('SETTING_REFUSED') ?? []).filter(({ object }) => {
        const [, name = '', value = ''] = /^(.*?)=(.*) \(ALTER /s.exec(object) ?? [];
        return refusesSetting(installed.settings, to, name, value);
      });
      // Those of roles are read in each database.
      return [...new Map(found.map((each) => [`${each.object} ${each.sql}`, each])).values()];
    },
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
