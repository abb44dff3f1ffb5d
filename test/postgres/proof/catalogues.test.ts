import { expect, test } from 'vitest';
import { cataloguesOf } from '../../../src/proof/catalogue-digest.ts';
import { withClient } from '../../helpers/client.ts';
import { serverUrl, VERSIONS } from '../../helpers/servers.ts';

/** Catalogues that the digest of a database leaves out, with the reason. */
const LEFT_OUT: Readonly<Record<string, string>> = {
  pg_depend: 'follows the objects, each of which has its own row in another catalogue',
  pg_statistic: 'what ANALYZE and autovacuum collect: the planner’s, not the schema',
  pg_statistic_ext_data: 'what ANALYZE and autovacuum collect: the planner’s, not the schema',
  pg_largeobject: 'data: its rows are counted (read-accounts.ts)',
  pg_largeobject_metadata: 'one row for each large object, whose data is counted',
  pg_subscription_rel: 'progress of the workers that copy tables, who write it at any time',
  pg_user_mapping: 'holds passwords: read as far as the role may (catalogue-digest.ts)',
  // Those of the whole server.
  pg_authid: 'shared: compared by shared-objects.ts',
  pg_auth_members: 'shared: compared by shared-objects.ts',
  pg_database: 'shared: compared by shared-objects.ts',
  pg_db_role_setting: 'shared: compared by shared-objects.ts',
  pg_parameter_acl: 'shared: compared by shared-objects.ts',
  pg_replication_origin: 'shared: compared by shared-objects.ts',
  pg_shdescription: 'shared: compared by shared-objects.ts',
  pg_subscription: 'shared: compared by shared-objects.ts',
  pg_tablespace: 'shared: compared by shared-objects.ts',
  pg_shdepend: 'shared: follows the objects of all databases, which change by others’ work at any time',
  pg_shseclabel: 'shared: written only with a module that provides labels',
};

const TABLES = `SELECT relname AS name FROM pg_class
 WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind = 'r' ORDER BY relname`;

test.each(VERSIONS)(
  'each catalogue of PostgreSQL %i is digested, or left out for a reason',
  async (version) => {
    await withClient(serverUrl(version), async (client) => {
      const { rows } = await client.query<{ name: string }>(TABLES);
      const all = rows.map(({ name }) => name);
      const digested = cataloguesOf(version * 10_000).map(({ name }) => name);
      expect(all.filter((name) => !digested.includes(name) && LEFT_OUT[name] === undefined)).toEqual([]);
      expect(digested.filter((name) => LEFT_OUT[name] !== undefined)).toEqual([]);
      expect(digested.filter((name) => !all.includes(name))).toEqual([]);
    });
  },
);
