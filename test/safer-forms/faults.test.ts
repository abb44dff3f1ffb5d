import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { rehearse } from '../../src/index.ts';
import type { Report } from '../../src/model/report.ts';
import type { ScriptPart } from '../../src/propose/write-script.ts';
import { plainEnvironment } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { temporaryDatabase } from '../helpers/database.ts';
import { hazardFixtures } from '../helpers/hazard-fixtures.ts';
import { majorOf, serverUrl, useOwnServers } from '../helpers/servers.ts';
import { inThisShare } from '../helpers/share.ts';

/** What is wrong with the script that is tried; no test runs beside another. */
const injected = vi.hoisted(() => ({ fault: (script: string[]): string[] => script }));

vi.mock('../../src/propose/write-script.ts', async (original) => {
  const actual = await original<typeof import('../../src/propose/write-script.ts')>();
  return {
    ...actual,
    statementsOfScript: (parts: readonly ScriptPart[]) => injected.fault(actual.statementsOfScript(parts)),
  };
});

const COMMAND = fileURLToPath(new URL('../helpers/commands/run-sql-files.mjs', import.meta.url));

const folder = mkdtempSync(path.join(tmpdir(), 'safemigrate-faults-'));
afterAll(() => rmSync(folder, { recursive: true }));
beforeAll(async () => {
  await useOwnServers(18);
  await withClient(serverUrl(18), async (client) => {
    await client.query('SET allow_in_place_tablespaces = on');
    await client.query("CREATE TABLESPACE elsewhere LOCATION ''");
  });
});

type Fault = (script: string[]) => string[];

const without =
  (text: string): Fault =>
  (script) =>
    script.filter((sql) => !sql.includes(text));
const replaced =
  (from: string, to: string): Fault =>
  (script) =>
    script.map((sql) => sql.replace(from, to));
const inOneTransaction: Fault = (script) => {
  const first = 1 + script.findIndex((sql) => sql.startsWith('SET search_path'));
  return [...script.slice(0, first), 'BEGIN', ...script.slice(first), 'COMMIT'];
};

const SCHEMA = /it leaves another schema/;
const ROWS = /it leaves other rows/;
const STILL = /it still has [A-Z_]+/;
const FAILED = /it failed|safer form failed/;
const OWN = /it has a hazard of its own, [A-Z_]+/;

/** Beside its setup: what the view has to be refreshed for. */
const CHANGED: Readonly<Record<string, string>> = {
  REFRESH_NOT_CONCURRENT: 'UPDATE orders SET total = 1',
  CHECK_SCANS_TABLE: 'CREATE SEQUENCE numbers',
};

type FaultyForm = [what: string, fixture: string, fault: Fault, reason: RegExp];

const BOUNDS_STAY: FaultyForm = [
  'bounds that stay as a CHECK',
  'DETACH_PARTITION_NOT_CONCURRENT',
  without('DROP CONSTRAINT'),
  SCHEMA,
];

const FAULTS: readonly FaultyForm[] = [
  ['an index of another column', 'INDEX_NOT_CONCURRENT', replaced('(status)', '(total)'), SCHEMA],
  ['a plain build', 'INDEX_NOT_CONCURRENT', replaced(' CONCURRENTLY', ''), STILL],
  [
    'another index that is dropped',
    'DROP_INDEX_NOT_CONCURRENT',
    replaced('CONCURRENTLY ', 'CONCURRENTLY IF EXISTS no_'),
    SCHEMA,
  ],
  ['a plain REINDEX', 'REINDEX_NOT_CONCURRENT', replaced(' CONCURRENTLY', ''), STILL],
  ['a plain REFRESH', 'REFRESH_NOT_CONCURRENT', replaced(' CONCURRENTLY', ''), STILL],
  ['no REFRESH', 'REFRESH_NOT_CONCURRENT', without('REFRESH'), ROWS],
  ['an index that stays where it is', 'TABLESPACE_REWRITES-index', without('REINDEX'), SCHEMA],
  ['a unique index and no constraint', 'CONSTRAINT_BUILDS_INDEX', without('USING INDEX'), SCHEMA],
  ['a primary key over columns that are not proved', 'PRIMARY_KEY_SETS_NOT_NULL', without('id_proven'), OWN],
  ['a CHECK that is not validated', 'CHECK_SCANS_TABLE', without('VALIDATE'), SCHEMA],
  ['another CHECK', 'CHECK_SCANS_TABLE', replaced('1000', '10000'), SCHEMA],
  [
    'a sequence that goes on',
    'CHECK_SCANS_TABLE',
    (script) => [...script, "SELECT setval('numbers', 7)"],
    ROWS,
  ],
  ['a foreign key that is not validated', 'FOREIGN_KEY_SCANS_TABLE', without('VALIDATE'), SCHEMA],
  [
    'a foreign key that cascades',
    'FOREIGN_KEY_SCANS_TABLE',
    replaced(' NOT VALID', ' ON DELETE CASCADE NOT VALID'),
    SCHEMA,
  ],
  ['a proof that stays', 'SET_NOT_NULL_SCANS_TABLE', without('DROP CONSTRAINT'), SCHEMA],
  ['SET NOT NULL without a proof', 'SET_NOT_NULL_SCANS_TABLE', without('_proven'), STILL],
  [
    'a proof of other bounds',
    'ATTACH_PARTITION_SCANS_TABLE',
    replaced("< '2027-01-01'", "< '2026-02-01'"),
    FAILED,
  ],
  ['a partition without a proof', 'ATTACH_PARTITION_SCANS_TABLE', without('_fits'), STILL],
  // From 19 on none stay.
  ...(majorOf(18) < 19 ? [BOUNDS_STAY] : []),
  ['old rows that are not filled', 'VOLATILE_DEFAULT_REWRITES', without('safemigrate_low'), ROWS],
  [
    'one value for all rows',
    'VOLATILE_DEFAULT_REWRITES',
    replaced('= DEFAULT', "= '00000000-0000-0000-0000-000000000000'"),
    ROWS,
  ],
  [
    'a column without its default',
    'VOLATILE_DEFAULT_REWRITES',
    replaced(', ALTER COLUMN "token" SET DEFAULT gen_random_uuid()', ''),
    SCHEMA,
  ],
  [
    'a loop that ends too early',
    'BACKFILL_IN_ONE_TRANSACTION',
    (script) => replaced('COMMIT;', 'COMMIT; EXIT;')(replaced('LIMIT 5000', 'LIMIT 500')(script)),
    ROWS,
  ],
  [
    'a loop that changes a row twice',
    'BACKFILL_IN_ONE_TRANSACTION',
    replaced('upper(status)', "status || 'x'"),
    ROWS,
  ],
  ['batches in one transaction', 'BACKFILL_WITH_DDL', without('safemigrate_low'), ROWS],
  [
    'one transaction for two locks',
    'SEVERAL_STRONG_LOCKS',
    (script) => inOneTransaction(without('LOCK TABLE')(script)),
    STILL,
  ],
  [
    'one transaction for a lock and a build',
    'TRIGGER_IN_LONG_TRANSACTION',
    (script) => inOneTransaction(replaced(' CONCURRENTLY', '')(script)),
    STILL,
  ],
  [
    'work under a lock',
    'WORK_AFTER_STRONG_LOCK',
    (script) => inOneTransaction(replaced(' CONCURRENTLY', '')(script)),
    STILL,
  ],
  ['a key that is validated at once', 'FOREIGN_KEY_VALIDATED_AT_ONCE', inOneTransaction, STILL],
  ['a new column that is not filled', 'TYPE_CHANGE_REWRITES', without('safemigrate_low'), FAILED],
  ['an old column that stays', 'TYPE_CHANGE_REWRITES', without('DROP TRIGGER'), SCHEMA],
  ['no ANALYZE', 'STATISTICS_MISSING', without('ANALYZE'), STILL],
];

/**
 * What stops the script, has to be the only hazard of its kind, or makes a difference of schemas that only the fingerprint shows, is tried
 * by itself; all others are in one script, each in a schema of its own.
 */
const isAlone = ([, name, , reason]: FaultyForm) =>
  ['TYPE_CHANGE_REWRITES', 'TABLESPACE_REWRITES-index'].includes(name) || reason === FAILED || reason === OWN;
const TOGETHER = FAULTS.filter((each) => !isAlone(each));
const schemaAt = (at: number) => `fault_${at}`;

/** Each fault is put into the statements of its own schema, which begin with what takes the session before back. */
const allTogether: Fault = (script) => {
  const starts = TOGETHER.map((_, at) =>
    at === 0 ? 0 : script.lastIndexOf('RESET ALL', script.indexOf(`SET search_path = ${schemaAt(at)}`)),
  );
  return TOGETHER.flatMap(([, , fault], at) => fault(script.slice(starts[at], starts[at + 1])));
};

async function propose(faulty: readonly FaultyForm[], fault: Fault, script: string) {
  const { url } = await temporaryDatabase(18);
  const files: { schema: string; file: string }[] = [];
  await withClient(url, async (client) => {
    for (const [at, [, name]] of faulty.entries()) {
      const fixture = hazardFixtures().find((each) => each.name === name);
      if (!fixture?.files.bad) throw new Error(`no fixture ${name}`);
      const schema = schemaAt(at);
      const setup = `${fixture.setup}; ${CHANGED[name] ?? ''}`;
      await client.query(`CREATE SCHEMA ${schema}; SET search_path = ${schema}; ${setup}`);
      files.push({ schema, file: fixture.files.bad });
    }
  });
  injected.fault = fault;
  const { proposal } = await rehearse({
    command: [process.execPath, COMMAND, JSON.stringify(files)],
    env: { ...plainEnvironment(), DATABASE_URL: url },
    clone: { method: 'template' },
    propose: script,
    proposeAll: faulty.some(([, name]) => name === 'TYPE_CHANGE_REWRITES'),
  });
  return proposal;
}

describe('in one script', () => {
  const script = path.join(folder, 'together.sql');
  let proposal: Report['proposal'];

  beforeAll(async () => {
    proposal = await propose(TOGETHER, allTogether, script);
  }, 120_000);

  test('they are refused', () => {
    expect(proposal?.outcome).toBe('refused');
    expect(existsSync(script)).toBe(false);
  });

  test.each(TOGETHER.map(([what, name, , reason], at) => [what, name, at, reason] as const))(
    '%s (%s) is not proved',
    (_what, _name, at, reason) => {
      const own = proposal?.reasons.filter((each) => each.includes(`${schemaAt(at)}.`));
      expect(own?.join('\n'), proposal?.reasons.join('\n')).toMatch(reason);
    },
  );
});

test.each(inThisShare(FAULTS.filter(isAlone), ([, , , reason]) => reason))(
  '%s (%s) is not proved',
  async (...faulty) => {
    const [, name, fault, reason] = faulty;
    const script = path.join(folder, `${name}.sql`);
    const proposal = await propose([faulty], fault, script);
    // A form that fails is left out, and nothing may be left to propose.
    const leftOut = proposal?.outcome === 'none' ? proposal.left.map(({ words }) => words) : [];
    expect(proposal?.outcome).toBe(leftOut.length > 0 ? 'none' : 'refused');
    expect([...(proposal?.reasons ?? []), ...leftOut].join('\n')).toMatch(reason);
    expect(existsSync(script)).toBe(false);
  },
);
