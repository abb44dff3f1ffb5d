import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ServerVersion } from '../../src/local-server/binaries.ts';
import type { Server } from '../../src/local-server/embedded.ts';
import type { Profile } from '../../src/model/profile-model.ts';
import { safemigrate, sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { withoutClientPrograms } from '../helpers/client-programs.ts';
import { withClient } from '../helpers/database.ts';
import { ownServer } from '../helpers/own-server.ts';
import { sampleProfile } from '../helpers/profiles.ts';
import { rehearse } from '../helpers/rehearse.ts';
import { inThisShare } from '../helpers/share.ts';
import { withDatabase } from '../helpers/target-state.ts';

const skip = await withoutClientPrograms('pg_basebackup', 'psql');

const TEXTS = [
  'SELECT id FROM orders WHERE customer = $1',
  'SELECT count(*) FROM orders WHERE state = $1',
  'SELECT id FROM orders WHERE made > $1 ORDER BY made LIMIT 10',
  'SELECT c.name, sum(o.state) FROM customers c JOIN orders o ON o.customer = c.id WHERE c.country = $1 GROUP BY 1',
  'SELECT * FROM orders WHERE id = $1',
  'SELECT id FROM orders WHERE note = $1',
];
const DROPPED = 'DROP INDEX by_customer; DROP INDEX by_state; DROP INDEX by_time';
const tables = (rows: number) => `
  CREATE TABLE customers (id bigint PRIMARY KEY, name text, country int);
  INSERT INTO customers SELECT n, 'customer ' || n, n % 50 FROM generate_series(1, ${rows / 10}) n;
  CREATE TABLE orders (id bigint PRIMARY KEY, customer bigint, state int, note text, made timestamptz);
  INSERT INTO orders SELECT n, n * 7919 % ${Math.max(1, rows / 10)}, n % 20, md5(n::text),
    '2026-01-01'::timestamptz + n * interval '1 s' FROM generate_series(1, ${rows}) n;
  CREATE INDEX by_customer ON orders (customer); CREATE INDEX by_state ON orders (state);
  CREATE INDEX by_time ON orders (made); CREATE INDEX by_note ON orders (note);`;

/** The costs of generic plans, as the server itself gives them. */
const costsIn = (url: string) =>
  withClient(url, async (client) => {
    await client.query('SET plan_cache_mode = force_generic_plan');
    const costs = new Map<string, number>();
    for (const [at, sql] of TEXTS.entries()) {
      await client.query(`PREPARE q${at} AS ${sql}`);
      const { rows } = await client.query(`EXPLAIN (FORMAT JSON) EXECUTE q${at} (NULL)`);
      costs.set(sql, rows[0]['QUERY PLAN'][0].Plan['Total Cost']);
    }
    return costs;
  });

const VERSIONS: readonly ServerVersion[] = [15, 18];

describe.skipIf(skip).each(inThisShare(VERSIONS))(
  'queries of a profile, on an empty database of %d',
  (version) => {
    let server: Server;
    let [shop, target] = ['', ''];
    let profile: Profile;

    beforeAll(async () => {
      server = await ownServer(version);
      [shop, target] = [withDatabase(server.url, 'shop'), withDatabase(server.url, 'test')];
      await withClient(server.url, async (client) => {
        await client.query('CREATE DATABASE shop');
        await client.query('CREATE DATABASE test');
        await client.query("CREATE ROLE watcher LOGIN PASSWORD 'w'");
      });
      await withClient(shop, async (client) => {
        await client.query(tables(100_000));
        await client.query('VACUUM ANALYZE');
      });
      await withClient(target, (client) => client.query(`${tables(0)} ANALYZE`));
      profile = await profileOf(shop);
    });
    afterAll(() => server.stop());

    const profileOf = async (url: string): Promise<Profile> => {
      const taken = await safemigrate(['profile', '--url', url, '--window', '0']);
      expect(taken.exitCode, taken.stderr).toBe(0);
      return JSON.parse(taken.stdout);
    };

    const profileFile = ({ relations, settings, takenAt }: Profile) => {
      const statements = {
        countedSince: null,
        utility: 0,
        hidden: 0,
        withLiterals: 0,
        texts: TEXTS.map((sql) => ({ sql, calls: 9, callsPerSecond: 1 })),
      };
      const place = path.join(temporaryFolder(), 'production.profile.json');
      writeFileSync(place, JSON.stringify(sampleProfile(relations, { settings, takenAt, statements })));
      return place;
    };

    /** In a copy of the server, or on a server of its own for a dump: their files are this tool's. */
    const onOwnFiles = async (sql: string) => {
      const dump = path.join(temporaryFolder(), 'test.sql');
      writeFileSync(dump, `${tables(0)} ANALYZE;`);
      const place = version === 15 ? ['--clone', 'basebackup'] : ['--dump', dump];
      return rehearse(target, sqlCommand(sql), { args: ['--profile', profileFile(profile), ...place] });
    };

    test('have the plans and costs of production', async () => {
      const before = await costsIn(shop);
      const after = await withClient(shop, async (client) => {
        await client.query(DROPPED);
        const costs = await costsIn(shop);
        await client.query(`CREATE INDEX by_customer ON orders (customer); CREATE INDEX by_state ON orders (state);
        CREATE INDEX by_time ON orders (made)`);
        return costs;
      });
      const slower = TEXTS.filter((sql) => (after.get(sql) ?? 0) >= 10 * (before.get(sql) ?? 0));
      expect(slower).toHaveLength(3);
      const { report } = await onOwnFiles(DROPPED);
      expect(report.caveats.filter(({ path: of }) => of.startsWith('queries'))).toEqual([]);
      expect(report.queries?.slower.map(({ sql }) => sql)).toEqual(slower);
      for (const { sql, costBefore, costAfter, ...query } of report.queries?.slower ?? []) {
        expect(query).toMatchObject({ atProductionSize: true, nodeAfter: 'Seq Scan on orders' });
        // An index of an empty table has a level less or two, each of a cost of 0.13.
        expect(Math.abs(costBefore - (before.get(sql) ?? 0)), sql).toBeLessThan(0.5);
        expect(costAfter / (after.get(sql) ?? 0), sql).toBeCloseTo(1, 3);
      }
      expect(report.hazards).toContainEqual(
        expect.objectContaining({
          code: 'QUERY_SLOWER',
          severity: 'warning',
          evidence: expect.stringMatching(
            /command at production's size and with its statistics; from profile/,
          ),
        }),
      );
    });

    test('are slower only until ANALYZE, if a column has lost its statistics', async () => {
      const { report } = await onOwnFiles('ALTER TABLE orders ALTER COLUMN note TYPE varchar(40)');
      expect(report.queries?.slower).toMatchObject([
        { sql: TEXTS.at(-1), untilAnalyzed: ['public.orders'], atProductionSize: true },
      ]);
      expect(report.hazards).toContainEqual(
        expect.objectContaining({
          code: 'QUERY_SLOWER',
          severity: 'notice',
          message: expect.stringMatching(/until/),
        }),
      );
    });

    test("are planned at their size here, and say so, where the files are another server's", async () => {
      const { report } = await rehearse(target, sqlCommand(DROPPED), {
        args: ['--profile', profileFile(profile), '--clone', 'template'],
      });
      expect(report.queries?.slower).toEqual([]);
      expect(report.caveats).toContainEqual({
        path: 'queries.slower',
        kind: 'unmeasured',
        reason: expect.stringMatching(/by the sizes of this database: the clone's server has no folder/),
      });
    });

    test('have no statistics that the role may not read', async () => {
      const seen = await profileOf(shop.replace(/\/\/[^@]*@/, '//watcher:w@'));
      expect(seen.relations.map(({ planner }) => planner)).toEqual([undefined, undefined]);
      expect(seen.unread).toContainEqual({
        what: 'relations[].planner',
        reason: 'the statistics of 2 tables are hidden from the role: pg_read_all_data would show them',
      });
      expect(profile.unread.map(({ what }) => what)).not.toContain('relations[].planner');
      const orders = profile.relations.find(({ relation }) => relation === 'public.orders')?.planner;
      expect(orders?.columns).toContainEqual({
        column: 'state',
        nullFraction: 0,
        width: 4,
        distinct: 20,
        correlation: expect.any(Number),
      });
      expect(orders?.indexes.map(({ index }) => index)).toEqual([
        ...['by_customer', 'by_note', 'by_state', 'by_time', 'orders_pkey'],
      ]);
    });
  },
);
