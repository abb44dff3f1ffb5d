import { readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { ServerVersion } from '../../src/local-server/binaries.ts';
import type { Profile } from '../../src/model/profile-model.ts';
import { safemigrate, sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { type TemporaryDatabase, temporaryDatabase, withClient } from '../helpers/database.ts';
import { ownServer } from '../helpers/own-server.ts';
import { profiled, sampleProfile } from '../helpers/profiles.ts';
import { readReport } from '../helpers/read-report.ts';
import { rehearse } from '../helpers/rehearse.ts';
import { useOwnServers } from '../helpers/servers.ts';
import { withDatabase } from '../helpers/target-state.ts';

const SHOP = `
  CREATE TABLE orders (id bigint PRIMARY KEY, customer int, note text);
  CREATE INDEX ON orders (customer);
  CREATE TABLE events (at date, body text) PARTITION BY RANGE (at);
  CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM ('2026-01-01') TO ('2026-07-01');
  CREATE TABLE events_2 PARTITION OF events FOR VALUES FROM ('2026-07-01') TO ('2027-01-01')`;
const fill = (rows: number) => `
  INSERT INTO orders SELECT n, n % 500, 'note ' || n FROM generate_series(1, ${rows}) n;
  INSERT INTO events SELECT date '2026-01-01' + n % 300, 'event' FROM generate_series(1, ${rows}) n;
  ANALYZE`;

const profileOf = async (url: string, args: string[] = [], env: NodeJS.ProcessEnv = {}) => {
  const file = path.join(temporaryFolder(), 'production.profile.json');
  const result = await safemigrate(['profile', '--url', url, '--out', file, '--window', '0', ...args], {
    env,
  });
  expect(result.exitCode, result.stderr).toBe(0);
  return { ...result, file, profile: JSON.parse(readFileSync(file, 'utf8')) as Profile };
};

describe.each<ServerVersion>([14, 18])('a profile of a database on %d', (version) => {
  test('has sizes, rates and statements, and no value; a plain role is told what it cannot read', async () => {
    const server = await ownServer(version, { settings: { shared_preload_libraries: 'pg_stat_statements' } });
    onTestFinished(() => server.stop());
    const url = withDatabase(server.url, 'shop');
    await withClient(server.url, (client) =>
      client.query('CREATE DATABASE shop').then(() => client.query("CREATE ROLE watcher LOGIN PASSWORD 'w'")),
    );
    await withClient(url, async (client) => {
      await client.query(`CREATE EXTENSION pg_stat_statements; ${SHOP}; ${fill(2000)}`);
      await client.query('GRANT SELECT ON orders TO watcher; SET app.secret = $$s3cret$$');
      await client.query("SELECT /* for Ann */ id FROM orders WHERE note = 'Ann Example'");
      await client.query("SELECT note INTO kept FROM orders WHERE note = 'Bob Example'");
      await client.query("UPDATE orders SET note = 'Cy Example' WHERE id = 7");
    });
    const audit = path.join(temporaryFolder(), 'audit.jsonl');
    const { profile, file, stderr } = await profileOf(url, ['--audit', audit]);
    expect(stderr).toMatch(/^The profile in .*: shop, .*, 5 relations.*, \d+ statements?\n/);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(profile).toMatchObject({ profile: 1, database: { name: 'shop' }, seal: { kind: 'sha256' } });
    expect(profile.access).toMatchObject({
      schemas: [
        { schema: 'public', relations: 3, granted: [{ role: 'watcher', privilege: 'SELECT', relations: 1 }] },
      ],
      roles: [{ role: 'watcher', has: [] }],
      defaults: [],
    });
    const relation = (name: string) => profile.relations.find((each) => each.relation === name);
    expect(relation('public.orders')).toMatchObject({
      kind: 'table',
      rows: 2000,
      grants: [{ role: 'watcher', privileges: ['SELECT'] }],
      indexBytes: expect.any(Number),
    });
    expect(relation('public.events')).toMatchObject({
      kind: 'partitioned table',
      rows: 2000,
      sizeBytes:
        (relation('public.events_1')?.sizeBytes ?? 0) + (relation('public.events_2')?.sizeBytes ?? 0),
    });
    const texts = profile.statements?.texts.map(({ sql }) => sql.replace(/\s+/g, ' '));
    expect(texts).toContain('SELECT id FROM orders WHERE note = $1');
    expect(texts).toContain('UPDATE orders SET note = $1 WHERE id = $2');
    expect(readFileSync(file, 'utf8')).not.toMatch(/Example|for Ann|s3cret|note \d/);
    expect(readFileSync(audit, 'utf8')).not.toMatch(/FROM (?:public\.)?(?:orders|events)/i);

    const plain = await profileOf(url.replace(/\/\/[^@]*@/, '//watcher:w@'));
    expect(plain.profile.relations).toHaveLength(5);
    expect(plain.profile.relations.map(({ sizeBytes }) => sizeBytes)).toEqual(
      profile.relations.map(({ sizeBytes }) => sizeBytes),
    );
    expect(plain.stderr).toMatch(/not read: statements: /);
    expect(plain.stderr).toMatch(/not read: freeBytes: /);
    expect(plain.profile.traffic).toBeNull();
    expect(plain.stderr).toMatch(/not read: traffic: .* too short for rates, .*: use --window\n/);
  });
});

describe('a rehearsal with a profile', () => {
  let small: TemporaryDatabase;
  const COMMAND = sqlCommand('ALTER TABLE orders ALTER COLUMN customer TYPE bigint');

  beforeAll(async () => {
    await useOwnServers(18);
    small = await temporaryDatabase(18, { sql: `${SHOP}; ${fill(20_000)}` });
  });

  /** As if production had a thousand times the rows. */
  const production = async (key?: string) => {
    const { file, profile } = await profileOf(small.url, key === undefined ? [] : ['--receipt-key', key]);
    if (key !== undefined) return file;
    const relations = profile.relations.map((each) => ({
      ...each,
      sizeBytes: (each.sizeBytes ?? 0) * 1000,
      rows: (each.rows ?? 0) * 1000,
    }));
    const statements = {
      countedSince: null,
      utility: 0,
      hidden: 0,
      withLiterals: 0,
      texts: [{ sql: 'SELECT customer FROM orders WHERE id = $1', calls: 9, callsPerSecond: 1 }],
    };
    writeFileSync(file, JSON.stringify(sampleProfile(relations, { statements, takenAt: profile.takenAt })));
    return file;
  };

  test('judges by its sizes, and says so on the first screen', async () => {
    const file = await production();
    const without = await rehearse(small.url, COMMAND);
    expect(without.report.hazards).toContainEqual(
      expect.objectContaining({ code: 'TYPE_CHANGE_REWRITES', severity: 'notice' }),
    );
    expect(without.report.profile).toBeUndefined();
    const { report, exitCode } = await rehearse(small.url, COMMAND, { args: ['--profile', file] });
    expect(exitCode).toBe(1);
    expect(report.profile).toMatchObject({ database: 'shop', signed: false, missing: [] });
    expect(report.hazards).toContainEqual(
      expect.objectContaining({
        code: 'TYPE_CHANGE_REWRITES',
        severity: 'error',
        evidence: expect.stringMatching(/for ≈ .*–.* at production's size/),
      }),
    );
    expect(report.queries).toMatchObject({ source: 'profile', checked: 1 });
    const [alter] = report.statements.filter(({ tag }) => tag === 'ALTER TABLE');
    expect(alter?.atProductionSize?.ms).toBeGreaterThan((alter?.durationMs ?? 0) * 100);
    const text = await safemigrate(['--url', small.url, '--profile', file, '--', ...COMMAND]);
    expect(text.stderr).toMatch(/Sizes\s+judged at production's size, by the profile of\s+shop from/);
  });

  test('a new table in an empty test database is compared with the grants of production', async () => {
    const made = (name: string) => `CREATE TABLE ${name} (id int); GRANT SELECT ON ${name} TO reports;`;
    const roles = 'CREATE ROLE reports LOGIN; CREATE ROLE migrator';
    const production = await temporaryDatabase(18, {
      sql: `${roles}; ${['a', 'b', 'c', 'd'].map(made).join('')} CREATE VIEW e AS SELECT; GRANT SELECT ON e TO reports;
        ALTER DEFAULT PRIVILEGES FOR ROLE migrator GRANT SELECT ON TABLES TO reports`,
    });
    const empty = await temporaryDatabase(18);
    const grants = async (sql: string) => {
      const { file } = await profileOf(production.url);
      const { report } = await rehearse(empty.url, sqlCommand(sql), { args: ['--profile', file] });
      return report.hazards.filter(({ code }) => code === 'NEW_OBJECT_NOT_GRANTED');
    };
    expect(await grants('CREATE TABLE invoices (id int)')).toEqual([
      expect.objectContaining({
        relation: 'public.invoices',
        severity: 'warning',
        statement: 1,
        evidence: expect.stringMatching(
          /^lacks SELECT in production, by the profile; default privileges for it exist only for what migrator creates/,
        ),
      }),
    ]);
    expect(await grants(made('invoices'))).toEqual([]);
    await withClient(production.url, (client) =>
      client.query('ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO reports'),
    );
    expect(await grants('CREATE TABLE invoices (id int)')).toEqual([]);
  });

  test('proves its signature with the key of receipts', async () => {
    const file = await production('ours');
    const args = (key: string) => [
      '--url',
      small.url,
      '--profile',
      file,
      '--receipt-key',
      key,
      '--',
      ...COMMAND,
    ];
    expect((await safemigrate(args('ours'))).exitCode).toBe(0);
    const other = await safemigrate(args('theirs'));
    expect(other).toMatchObject({ exitCode: 2, stderr: expect.stringMatching(/signed with another key/) });
  });

  describe('on a dump without rows', () => {
    const SCHEMA = `CREATE TABLE customers (id int, name text); CREATE TABLE old (id int);
      CREATE TABLE orders (id int, total int); CREATE TABLE unused (id int); CREATE TABLE alembic_version (version_num text);
      INSERT INTO alembic_version VALUES ('4d5a02f7c168');`;
    const CHANGES = sqlCommand(
      'ALTER TABLE customers DROP COLUMN name; ALTER TABLE orders ALTER total TYPE bigint; DROP TABLE old; DROP TABLE unused',
    );
    const runOnDump = async (command: string[], args: string[] = [], files: Record<string, string> = {}) => {
      const folder = temporaryFolder();
      for (const [name, text] of Object.entries({ 'schema.sql': SCHEMA, ...files }))
        writeFileSync(path.join(folder, name), text);
      const words = ['--dump', 'schema.sql', '--report', 'r.json', ...args, '--', ...command];
      const result = await safemigrate(words, { folder });
      return { ...result, report: readReport(readFileSync(path.join(folder, 'r.json'), 'utf8')) };
    };
    const screen = (stderr: string) =>
      stderr.slice(stderr.search(/(?:DID NOT PASS|PASSED):/)).replace(/\s+/g, ' ');

    test('judges what is lost and rewritten by the rows of the profile', async () => {
      const relations = [
        profiled('public.customers', 20 * 2 ** 20, 200_000),
        profiled('public.old', 20 * 2 ** 20, 200_000),
        profiled('public.orders', 20 * 2 ** 30, 200_000_000),
        profiled('public.unused', 0, 0),
      ];
      const profile = sampleProfile(relations, { takenAt: new Date().toISOString() });
      const { report, exitCode, stderr } = await runOnDump(CHANGES, ['--profile', 'p.json'], {
        'p.json': JSON.stringify(profile),
      });
      expect(exitCode, stderr).toBe(1);
      const severities = report.hazards.map(
        ({ code, relation, severity }) => `${code} ${relation}: ${severity}`,
      );
      expect(severities).toEqual(
        expect.arrayContaining([
          'COLUMN_DROPPED public.customers: error',
          'TABLE_DROPPED public.old: error',
          'TABLE_DROPPED public.unused: notice',
          'TYPE_CHANGE_REWRITES public.orders: error',
        ]),
      );
      const dropped = report.hazards.find(({ code }) => code === 'COLUMN_DROPPED');
      expect(dropped?.evidence).toMatch(/^public\.customers: 20 MB, about 200,000 rows/);
      expect(screen(stderr)).toContain('Data drops table old: not known, no rows here; drops column');
    });

    test('without a profile warns, says that it has none, and passes', async () => {
      const { report, exitCode, stderr } = await runOnDump(CHANGES);
      expect(exitCode, stderr).toBe(0);
      expect(report.hazards.filter(({ severity }) => severity === 'error')).toEqual([]);
      expect(report.hazards).toContainEqual(
        expect.objectContaining({
          code: 'COLUMN_DROPPED',
          severity: 'warning',
          evidence: expect.stringMatching(/^public\.customers: not known, no rows here/),
        }),
      );
      expect(report.data).toMatchObject({ withoutRows: true });
      expect(screen(stderr)).toMatch(
        /Data drops table old: not known, no rows here.* Sizes this dump has no rows: which data is lost, and how long statements take, is not known/,
      );
      const harmless = await runOnDump(sqlCommand('ALTER TABLE orders ADD note text'));
      expect(screen(harmless.stderr)).toContain('Data not known: no rows here');
    });
  });

  test('without one, in CI, says on its first screen by what sizes it judges', async () => {
    const { stderr } = await safemigrate(['--url', small.url, '--', ...COMMAND], { env: { CI: 'true' } });
    expect(stderr.replace(/\s+/g, ' ')).toMatch(
      /PASSED: .* Sizes judged by the sizes of this database \(\d+ MB\)/,
    );
    const plain = await rehearse(small.url, COMMAND);
    expect(plain.report.caveats.filter(({ path }) => path === 'hazards[].severity')).toEqual([]);
  });
});
