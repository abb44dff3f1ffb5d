import { describe, expect, test } from 'vitest';
import { isHarmlessFunction } from '../../../src/boundary/harmless-functions.ts';
import { SERVER_FUNCTIONS } from '../../../src/boundary/server-calls.ts';
import { DOUBTFUL_BUILT_IN } from '../../../src/boundary/unknown-code-sql.ts';
import { withClient } from '../../helpers/database.ts';
import { serverUrl, VERSIONS } from '../../helpers/servers.ts';

/** Built-in functions that were judged, and are not harmless: they run a text, or code that they find by a name or an OID. */
const NOT_HARMLESS =
  /^(?:binary_upgrade_\w+|(?:cursor|database|query|schema|table)_to_xml\w*|(?:domain|array|record|range|multirange|anyarray|anycompatiblearray|any\w*range)_(?:in|recv)|fmgr_\w+_validator|amvalidate|brin_summarize_\w+|currtid2|pg_input_\w+|pg_restore_\w+_stats|ts_rewrite|ts_stat|pg_import_system_collations|pg_nextoid|pg_logical_slot_peek_\w+|pg_replication_origin_(?:session_reset|xact_\w+)|pg_stat_reset_single_table_counters)$/;

/** Whatever an operator, a cast, an aggregate, an operator class, a type, a view or a trigger of the server's own runs without naming it. */
const BEHIND = `
SELECT DISTINCT p.proname AS name FROM pg_proc p WHERE p.oid < 16384 AND p.provolatile <> 'i' AND (
  EXISTS (SELECT FROM pg_operator o WHERE o.oprcode = p.oid) OR EXISTS (SELECT FROM pg_cast c WHERE c.castfunc = p.oid)
  OR EXISTS (SELECT FROM pg_amproc a WHERE a.amproc = p.oid)
  OR EXISTS (SELECT FROM pg_aggregate a WHERE p.oid IN (a.aggtransfn, a.aggfinalfn, a.aggcombinefn, a.aggserialfn, a.aggdeserialfn,
    a.aggmtransfn, a.aggminvtransfn, a.aggmfinalfn))
  OR p.oid IN (SELECT found[1]::oid FROM pg_rewrite r,
    regexp_matches(r.ev_action::text, ':(?:funcid|opfuncid|aggfnoid|winfnoid) (\\d+) ', 'g') AS found WHERE r.ev_class < 16384))
  AND 'internal'::regtype <> ALL (p.proargtypes) AND p.prorettype <> 'internal'::regtype`;

describe.each(VERSIONS)('the built-in functions of PostgreSQL %i', (version) => {
  test('are judged, each', async () => {
    const { rows } = await withClient(serverUrl(version), (client) =>
      client.query<{ functions: string }>(DOUBTFUL_BUILT_IN),
    );
    const names = (rows[0]?.functions ?? '').split(',').map((text) => text.split(' ')[1] ?? '');
    expect(names.length).toBeGreaterThan(500);
    const isBad = (name: string) => SERVER_FUNCTIONS.has(name) || NOT_HARMLESS.test(name);
    expect(names.filter((name) => !isHarmlessFunction(name) && !isBad(name))).toEqual([]);
    expect(names.filter((name) => isHarmlessFunction(name) && isBad(name))).toEqual([]);
  });

  test('are harmless if the server runs them without their names', async () => {
    const { rows } = await withClient(serverUrl(version), (client) => client.query<{ name: string }>(BEHIND));
    expect(rows.map(({ name }) => name).filter((name) => !isHarmlessFunction(name))).toEqual([]);
  });
});
