import { readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { temporaryFolder } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { skipReason } from '../helpers/requirements.ts';
import { makeAccounts, startTransfers } from '../helpers/transfers.ts';
import { upgradePrograms } from '../helpers/upgrade-programs.ts';
import {
  cannotUpgrade,
  NEW,
  OLD,
  rehearseUpgradeOf,
  type ServerToUpgrade,
  serverToUpgrade,
} from '../helpers/upgrading.ts';

const MB = 2 ** 20;
const SIXTEEN = await upgradePrograms(16);
const newBin = ['--new-bin', NEW.programs];

describe.skipIf(cannotUpgrade)('an upgrade of PostgreSQL 15 to 18', () => {
  let old: ServerToUpgrade;

  beforeAll(async () => {
    old = await serverToUpgrade();
    await makeAccounts(old.url);
    await query('ANALYZE');
  }, 60_000);
  afterAll(() => old?.stop());

  const query = (sql: string) => withClient(old.url, (client) => client.query(sql));

  describe('of a target in use', () => {
    test('is tried in all modes, and nobody on the target notices', async () => {
      const transfers = await startTransfers(old.url, 2);
      const { report, exitCode, stderr } = await rehearseUpgradeOf(old.url, 18, newBin).finally(() =>
        transfers.end(),
      );
      expect(exitCode, stderr).toBe(0);
      expect(report?.modes).toMatchObject([
        { mode: 'copy', outcome: 'passed', wayBack: true },
        { mode: 'clone', outcome: 'passed', wayBack: true },
        { mode: 'link', outcome: 'passed', wayBack: false },
        { mode: 'swap', outcome: 'passed', wayBack: false },
      ]);
      for (const { phases, downtimeMs, peakBytes } of report?.modes ?? []) {
        const names = ['initdb', 'pg_upgrade', 'start', 'first statistics', 'statistics'];
        expect(phases.map(({ name }) => name)).toEqual(names);
        const down = phases.filter(({ name }) => name === 'pg_upgrade' || name === 'start');
        expect(downtimeMs).toBeCloseTo(down.reduce((sum, { durationMs }) => sum + durationMs, 0));
        expect(peakBytes).toBeGreaterThan(MB);
      }
      expect(report).toMatchObject({
        from: { major: 15, programs: OLD.programs },
        to: { major: 18, programs: NEW.programs },
        check: { passed: true },
        clone: { strategy: 'reflink' },
        carriesStatistics: true,
        verdict: { pass: true, reasons: [] },
        cleanup: { failed: [] },
      });
      expect(['copy', 'clone']).toContain(report?.recommendation?.mode);
      expect(stderr).toContain('users would wait');
      expect(stderr).toMatch(/^ +swap .* none$/m);
      const { failed, committed } = await transfers.end();
      expect(failed).toBe(0);
      expect(committed).toBeGreaterThan(0);
      const left = await readdir(old.server.folder);
      expect(left.filter((name) => name.startsWith('safemigrate'))).toEqual([]);
    }, 120_000);
  });
});

describe.skipIf(cannotUpgrade)('the application on both versions', () => {
  let old: ServerToUpgrade;
  const BREAKS = 'SELECT checkpoints_timed FROM pg_stat_bgwriter';
  const SLOWER = 'SELECT * FROM orders WHERE customer = $1';
  const OTHER_RESULT = 'SELECT system_user FROM orders WHERE id = $1';

  beforeAll(async () => {
    old = await serverToUpgrade();
    await withClient(old.url, (client) => client.query(APPLICATION));
  }, 60_000);
  afterAll(() => old?.stop());

  test('is tried after the command that belongs to the upgrade, whose time counts', async () => {
    const folder = temporaryFolder();
    const queries = [...GOOD_QUERIES, BREAKS, SLOWER, OTHER_RESULT].map((sql) => `${sql};\n`);
    await writeFile(path.join(folder, 'queries.sql'), queries.join(''));
    const script = path.join(folder, 'after.sh');
    await writeFile(
      script,
      `psql -X -q -v ON_ERROR_STOP=1 "$DATABASE_URL" -c "ALTER EXTENSION citext UPDATE" -c "DROP INDEX orders_customer_idx"`,
    );
    const args = [
      ...[...newBin, '--modes', 'clone,link', '--queries', path.join(folder, 'queries.sql')],
      ...['--check', 'SELECT count(*), sum(customer) FROM orders'],
      ...['--check', 'SELECT current_setting($$server_version_num$$)::int / 10000'],
    ];
    const { report, exitCode, stderr } = await rehearseUpgradeOf(old.url, 18, args, {}, ['sh', script]);
    expect(exitCode, stderr).toBe(1);
    expect(report?.modes.map(({ outcome }) => outcome)).toEqual(['passed', 'passed']);
    for (const { phases, downtimeMs } of report?.modes ?? []) {
      expect(phases.map(({ name }) => name)).toContain('command');
      const down = phases.filter((each) => each.down);
      expect(down.map(({ name }) => name)).toEqual(['pg_upgrade', 'start', 'command']);
      expect(downtimeMs).toBeCloseTo(down.reduce((sum, { durationMs }) => sum + durationMs, 0));
    }
    expect(report?.command).toMatchObject({ argv: ['sh', script], exitCode: 0 });
    expect(report?.application).toMatchObject({ mode: 'clone', schemaChanges: [] });
    expect(report?.application?.queries).toMatchObject({
      checked: GOOD_QUERIES.length + 3,
      planned: true,
      broken: [{ sql: BREAKS, error: { sqlstate: '42703' } }],
      slower: [{ sql: SLOWER, nodeAfter: 'Seq Scan on orders' }],
      changedRow: [{ sql: OTHER_RESULT }],
    });
    const found = new Map(report?.obstacles.map((each) => [each.code, each]));
    expect(found.get('QUERY_BREAKS')).toMatchObject({ severity: 'error', count: 1 });
    expect(found.get('QUERY_SLOWER')).toMatchObject({ severity: 'warning', count: 1 });
    expect(found.get('RESULT_CHANGES')).toMatchObject({ severity: 'warning', count: 1 });
    expect(found.get('RESERVED_WORD')?.objects).toEqual(['app: public.orders.system_user']);
    expect(found.get('CHECK_DIFFERS')?.objects).toEqual([
      'SELECT current_setting($$server_version_num$$)::int / 10000: missing ["15"], added ["18"]',
    ]);
    expect(found.has('SCHEMA_DIFFERS')).toBe(false);
    expect(stderr).toContain('53 queries of the application');
    expect(stderr).toMatch(/Command +sh .*after\.sh, in /);
  }, 120_000);

  test('has the statements of the command in its report, with their locks', async () => {
    const sql = 'ALTER TABLE orders ADD COLUMN paid bool; ALTER TABLE orders ALTER amount TYPE bigint';
    const args = [...newBin, '--modes', 'link,swap', '--queries', 'off'];
    const { report, exitCode, stderr } = await rehearseUpgradeOf(old.url, 18, args, {}, psql(sql));
    expect(exitCode, stderr).toBe(0);
    expect(report?.command?.statements).toMatchObject([
      {
        sql: 'ALTER TABLE orders ADD COLUMN paid bool',
        locks: expect.arrayContaining([
          expect.objectContaining({ relation: 'public.orders', mode: 'ACCESS EXCLUSIVE' }),
        ]),
        rewrote: [],
      },
      { sql: 'ALTER TABLE orders ALTER amount TYPE bigint', rewrote: ['public.orders'] },
    ]);
    expect(stderr).toMatch(/^STATEMENTS +2 statements/m);
    expect(stderr).toMatch(/public\.orders +ACCESS EXCLUSIVE +held/);
  }, 120_000);

  test('does not pass if the command fails on the upgraded server', async () => {
    const args = [...newBin, '--modes', 'link', '--queries', 'off'];
    const { report, exitCode, stderr } = await rehearseUpgradeOf(old.url, 18, args, {}, [
      'sh',
      '-c',
      'exit 3',
    ]);
    expect(exitCode, stderr).toBe(1);
    expect(report).toMatchObject({ command: { exitCode: 3 }, modes: [{ mode: 'link', outcome: 'failed' }] });
    expect(report?.verdict.reasons.join()).toContain('the command failed');
  }, 60_000);

  test('ends with exit code 5 if a command that is only watched connects to the target itself', async () => {
    const file = path.join(temporaryFolder(), 'url');
    await writeFile(file, old.url);
    const stay = `echo 'SELECT pg_sleep(30)' | psql -X "$(cat "$0")"`;
    const args = [...newBin, '--modes', 'link', '--queries', 'off'];
    const env = { SAFEMIGRATE_SANDBOX: 'off' };
    const { exitCode, stderr, report } = await rehearseUpgradeOf(old.url, 18, args, env, [
      'sh',
      '-c',
      stay,
      file,
    ]);
    expect(exitCode, stderr).toBe(5);
    expect(report).toBeNull();
    expect(stderr).toContain('The command connected to the target itself, as postgres');
    const left = await readdir(old.server.folder);
    expect(left.filter((name) => name.startsWith('safemigrate'))).toEqual([]);
  }, 60_000);

  test('is tried with the queries that pg_stat_statements has', async () => {
    const counted = await serverToUpgrade({ settings: { shared_preload_libraries: 'pg_stat_statements' } });
    try {
      await withClient(counted.url, async (client) => {
        await client.query('CREATE EXTENSION pg_stat_statements; CREATE TABLE t (id int PRIMARY KEY)');
        for (const sql of [BREAKS, 'SELECT count(*) FROM t']) await client.query(sql);
      });
      const { report, exitCode, stderr } = await rehearseUpgradeOf(counted.url, 18, [
        ...newBin,
        ...['--modes', 'link'],
      ]);
      expect(exitCode, stderr).toBe(1);
      expect(report?.application?.queries).toMatchObject({
        source: 'pg_stat_statements',
        broken: [{ sql: BREAKS }],
        slower: [],
      });
    } finally {
      await counted.stop();
    }
  }, 60_000);
});

describe.skipIf(cannotUpgrade || skipReason(SIXTEEN.obstacle))('an upgrade of PostgreSQL 16 to 18', () => {
  test('passes, and the application is the same on both', async () => {
    const old = await serverToUpgrade({ programs: SIXTEEN.programs });
    try {
      await makeAccounts(old.url);
      const args = [...newBin, '--modes', 'copy'];
      const { report, exitCode, stderr } = await rehearseUpgradeOf(old.url, 18, args);
      expect(exitCode, stderr).toBe(0);
      expect(report?.from).toMatchObject({ major: 16 });
      expect(report?.modes.map(({ outcome }) => outcome)).toEqual(['passed']);
      expect(report?.application).toMatchObject({ mode: 'copy', schemaChanges: [] });
    } finally {
      await old.stop();
    }
  }, 120_000);
});

describe.skipIf(cannotUpgrade || skipReason(SIXTEEN.obstacle))('an upgrade of PostgreSQL 15 to 16', () => {
  test('counts the first stage of the statistics, which pg_upgrade does not carry over', async () => {
    const old = await serverToUpgrade();
    try {
      await makeAccounts(old.url);
      const args = ['--new-bin', SIXTEEN.programs, '--modes', 'clone,swap'];
      const { report, exitCode, stderr } = await rehearseUpgradeOf(old.url, 16, args);
      expect(exitCode, stderr).toBe(0);
      expect(report).toMatchObject({
        carriesStatistics: false,
        modes: [
          { mode: 'clone', outcome: 'passed' },
          { mode: 'swap', outcome: 'skipped' },
        ],
      });
      const [{ phases } = { phases: [] }] = report?.modes ?? [];
      expect(phases.filter(({ down }) => down).map(({ name }) => name)).toEqual([
        ...['pg_upgrade', 'start', 'first statistics'],
      ]);
      const lost = report?.obstacles.find(({ code }) => code === 'STATISTICS_LOST');
      expect(lost?.objects).toEqual([expect.stringMatching(/^all databases, for .* more$/)]);
    } finally {
      await old.stop();
    }
  }, 120_000);
});

/** A command that sends this to the database that it is given. */
function psql(sql: string): string[] {
  return ['sh', '-c', `echo "$0" | psql -X -q -v ON_ERROR_STOP=1 "$DATABASE_URL"`, sql];
}

/** Objects of many kinds, which both versions describe alike. */
const APPLICATION = `
CREATE EXTENSION citext; CREATE EXTENSION pg_trgm;
CREATE SCHEMA sales; CREATE TYPE mood AS ENUM ('sad', 'happy'); CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TABLE customers (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, mail citext UNIQUE, mood mood);
CREATE TABLE orders (id serial PRIMARY KEY, customer int NOT NULL REFERENCES customers, total numeric(10,2) DEFAULT 0 NOT NULL CHECK (total >= 0),
  placed timestamptz DEFAULT now(), amount positive, "system_user" int, note text COLLATE "C", doubled numeric GENERATED ALWAYS AS (total * 2) STORED);
CREATE INDEX orders_customer_idx ON orders (customer); CREATE INDEX ON orders (lower(note)) WHERE total > 10;
CREATE TABLE sales.events (id bigint, at date NOT NULL, PRIMARY KEY (id, at)) PARTITION BY RANGE (at);
CREATE TABLE sales.events_1 PARTITION OF sales.events FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
CREATE TABLE sales.parent (a int NOT NULL, b text); CREATE TABLE sales.child (c int NOT NULL) INHERITS (sales.parent);
ALTER TABLE orders ADD CONSTRAINT later CHECK (total < 1000000) NOT VALID;
CREATE VIEW sales.big AS SELECT o.id, c.name FROM orders o JOIN customers c ON c.id = o.customer WHERE total > 100;
CREATE VIEW sales.named (number, customer) WITH (security_barrier) AS SELECT b.id, b.name FROM sales.big b WHERE EXISTS (SELECT FROM orders o WHERE o.id = b.id);
GRANT SELECT ON sales.named TO PUBLIC; COMMENT ON VIEW sales.big IS 'the big ones';
CREATE MATERIALIZED VIEW sales.sums AS SELECT customer, sum(total) FROM orders GROUP BY 1;
CREATE FUNCTION double(n int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT n * 2';
CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN NEW.placed := now(); RETURN NEW; END$$;
CREATE TRIGGER stamp BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION stamp();
CREATE SEQUENCE sales.numbers START 5; CREATE STATISTICS sales.st ON customer, total FROM orders;
ALTER TABLE orders ENABLE ROW LEVEL SECURITY; CREATE POLICY mine ON orders USING (customer > 0);
CREATE PUBLICATION pub FOR TABLE orders; COMMENT ON TABLE orders IS 'orders'; GRANT SELECT ON orders TO PUBLIC;
INSERT INTO customers (name) SELECT 'c' || i FROM generate_series(1, 2000) i;
INSERT INTO orders (customer, total, amount) SELECT 1 + i % 2000, i % 500, 1 FROM generate_series(1, 50000) i;
INSERT INTO sales.events SELECT i, '2026-03-01' FROM generate_series(1, 1000) i;
ANALYZE;`;

const GOOD_QUERIES = [
  'SELECT * FROM customers WHERE id = $1',
  'SELECT name FROM customers WHERE mail = $1',
  'SELECT count(*) FROM orders',
  'SELECT sum(total) FROM orders WHERE placed > now() - $1::interval',
  'INSERT INTO orders (customer, total) VALUES ($1, $2)',
  'UPDATE orders SET total = $1 WHERE id = $2',
  'DELETE FROM orders WHERE id = $1',
  'SELECT * FROM sales.events WHERE at = $1 AND id = $2',
  'SELECT c.name, sum(o.total) FROM customers c JOIN orders o ON o.customer = c.id GROUP BY 1 ORDER BY 2 DESC LIMIT $1',
  'SELECT double(id) FROM customers WHERE mood = $1',
  ...Array.from({ length: 20 }, (_, n) => `SELECT id, total + ${n} FROM orders WHERE id = $1`),
  ...Array.from(
    { length: 20 },
    (_, n) => `SELECT name FROM customers WHERE id > $1 ORDER BY id LIMIT ${n + 1}`,
  ),
];
