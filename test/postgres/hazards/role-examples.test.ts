import { type HazardExample, testHazardExamples } from '../../helpers/hazard-examples.ts';

/** Changes of roles, on clones in a cluster of their own; each with some that are harmless. */
const ITEMS = 'CREATE TABLE items (id int PRIMARY KEY, code text); ';
const APP = 'CREATE ROLE :schemaapp LOGIN; ';
const GROUP = `${APP}CREATE ROLE :schemagroup; ${ITEMS}GRANT SELECT ON items TO :schemagroup; `;
const OWNER = `${APP}CREATE ROLE :schemaowner; ${ITEMS}ALTER TABLE items OWNER TO :schemaowner; `;

const EXAMPLES: readonly HazardExample[] = [
  {
    what: 'a setting of a role in all databases',
    setup: APP,
    sql: 'ALTER ROLE :schemaapp SET row_security = off',
    told: 'DATABASE_SETTING_CHANGED',
  },
  {
    what: 'a setting of a new role',
    setup: ITEMS,
    sql: "CREATE ROLE :schemaapp LOGIN; ALTER ROLE :schemaapp SET search_path = ':schema'",
  },
  {
    what: 'a limit for idle transactions of a role',
    setup: APP,
    sql: "ALTER ROLE :schemaapp SET idle_in_transaction_session_timeout = '10min'",
  },
  {
    what: 'a role that loses LOGIN',
    setup: APP,
    sql: 'ALTER ROLE :schemaapp NOLOGIN',
    told: 'PRIVILEGES_REVOKED',
  },
  {
    what: 'a role whose password expires',
    setup: APP,
    sql: "ALTER ROLE :schemaapp VALID UNTIL '2020-01-01'",
    told: 'PRIVILEGES_REVOKED',
  },
  {
    what: 'a role with fewer sessions',
    setup: `${APP}ALTER ROLE :schemaapp CONNECTION LIMIT 20`,
    sql: 'ALTER ROLE :schemaapp CONNECTION LIMIT 5',
    told: 'PRIVILEGES_REVOKED',
  },
  {
    what: 'a role that is renamed',
    setup: APP,
    sql: 'ALTER ROLE :schemaapp RENAME TO :schemaweb',
    told: 'PRIVILEGES_REVOKED',
  },
  {
    what: 'a role that may log in, later and more often',
    setup: `${APP}ALTER ROLE :schemaapp CONNECTION LIMIT 5; CREATE ROLE :schemaother`,
    sql: "ALTER ROLE :schemaapp CONNECTION LIMIT 20 VALID UNTIL '2099-01-01'; ALTER ROLE :schemaother LOGIN; ALTER ROLE :schemaapp PASSWORD 'x'",
  },
  {
    what: 'a role that could not log in, and is dropped',
    setup: 'CREATE ROLE :schemagroup',
    sql: 'ALTER ROLE :schemagroup NOLOGIN; DROP ROLE :schemagroup',
  },
  {
    what: 'a member that leaves the role with its privileges',
    setup: `${GROUP}GRANT :schemagroup TO :schemaapp`,
    sql: 'REVOKE :schemagroup FROM :schemaapp',
    told: 'PRIVILEGES_REVOKED',
  },
  {
    what: 'a member that goes from one role to another',
    setup: `${GROUP}CREATE ROLE :schemateam; GRANT SELECT ON items TO :schemateam; GRANT :schemagroup TO :schemaapp`,
    sql: 'GRANT :schemateam TO :schemaapp; REVOKE :schemagroup FROM :schemaapp',
  },
  {
    what: 'a member that leaves a role without privileges',
    setup: `${APP}CREATE ROLE :schemaidle; GRANT :schemaidle TO :schemaapp`,
    sql: 'REVOKE :schemaidle FROM :schemaapp',
  },
  {
    what: 'a role that policies are for no longer',
    setup: APP,
    sql: 'ALTER ROLE :schemaapp BYPASSRLS',
    told: 'ACCESS_WIDENED',
  },
  {
    what: 'a role that becomes a superuser',
    setup: APP,
    sql: 'ALTER ROLE :schemaapp SUPERUSER',
    told: 'ACCESS_WIDENED',
  },
  {
    what: 'a role that is made a superuser',
    setup: ITEMS,
    sql: 'CREATE ROLE :schemaadmin LOGIN SUPERUSER',
    told: 'ACCESS_WIDENED',
  },
  {
    what: 'a member of the owner of tables',
    setup: OWNER,
    sql: 'GRANT :schemaowner TO :schemaapp',
    told: 'ACCESS_WIDENED',
  },
  {
    what: 'a member of the owner of tables, through a role of its own',
    setup: `${OWNER}CREATE ROLE :schemateam; GRANT :schemateam TO :schemaapp`,
    sql: 'GRANT :schemaowner TO :schemateam',
    told: 'ACCESS_WIDENED',
  },
  {
    what: 'a member of a predefined role that reads everything',
    setup: APP,
    sql: 'GRANT pg_read_all_data TO :schemaapp',
    told: 'ACCESS_WIDENED',
  },
  {
    what: 'a member of a role with privileges on tables',
    setup: GROUP,
    sql: 'GRANT :schemagroup TO :schemaapp',
  },
  {
    what: 'a member of a role that looks at statistics',
    setup: APP,
    sql: 'GRANT pg_monitor TO :schemaapp',
  },
  {
    what: 'a member without INHERIT and SET',
    setup: OWNER,
    sql: 'GRANT :schemaowner TO :schemaapp WITH INHERIT FALSE, SET FALSE',
    from: 16,
  },
  {
    what: 'new roles, with and without LOGIN',
    setup: GROUP,
    sql: `CREATE ROLE :schemaweb LOGIN CONNECTION LIMIT 0; CREATE ROLE :schemabypass BYPASSRLS;
      GRANT :schemagroup TO :schemaweb; CREATE ROLE :schemamaker; CREATE TABLE made (id int PRIMARY KEY);
      ALTER TABLE made OWNER TO :schemamaker; GRANT :schemamaker TO :schemaapp`,
  },
  {
    what: 'a table of a role that has members',
    setup: `${APP}CREATE ROLE :schemamaker; GRANT :schemamaker TO :schemaapp`,
    sql: 'CREATE TABLE made (id int PRIMARY KEY); ALTER TABLE made OWNER TO :schemamaker; GRANT SELECT ON made TO :schemaapp',
  },
];

testHazardExamples(EXAMPLES, 'cluster');
