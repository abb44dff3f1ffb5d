import { describe, expect, test } from 'vitest';
import { SERVER_FUNCTIONS } from '../../../src/boundary/server-calls.ts';
import { withClient } from '../../helpers/database.ts';
import { serverUrl, VERSIONS } from '../../helpers/servers.ts';

/** Functions that PUBLIC may not call, and that only read, or act on their own session or database. */
const HARMLESS =
  /^(?:pg_config|pg_current_logfile|pg_get_.*|pg_hba_file_rules|pg_ident_file_mappings|pg_ls_.*|pg_stat_file|pg_stat_have_stats|pg_stat_reset|pg_stat_reset_single_.*|pg_show_.*|pg_replication_origin_(?:oid|progress|session_(?:is_setup|progress|reset)|xact_(?:reset|setup)))$/;

const RESTRICTED = `SELECT DISTINCT proname FROM pg_proc
  WHERE pronamespace = 'pg_catalog'::regnamespace AND proacl IS NOT NULL
    AND NOT EXISTS (SELECT FROM aclexplode(proacl) a WHERE a.grantee = 0)`;
const NAMES = `SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace`;

async function names(version: (typeof VERSIONS)[number], sql: string): Promise<string[]> {
  return withClient(serverUrl(version), async (client) => {
    const { rows } = await client.query<{ proname: string }>(sql);
    return rows.map(({ proname }) => proname);
  });
}

describe('the list of functions that act on the server', () => {
  test.each(VERSIONS)('has all of PostgreSQL %i that PUBLIC may not call and that do', async (version) => {
    const missing = (await names(version, RESTRICTED)).filter(
      (name) => !SERVER_FUNCTIONS.has(name) && !HARMLESS.test(name),
    );
    expect(missing).toEqual([]);
  });

  test('has no built-in function that no version knows', async () => {
    const known = new Set((await Promise.all(VERSIONS.map((version) => names(version, NAMES)))).flat());
    const builtIn = [...SERVER_FUNCTIONS].filter(([, { extension }]) => extension === null);
    expect(builtIn.map(([name]) => name).filter((name) => !known.has(name))).toEqual([]);
  });
});
