import { afterAll, beforeAll, describe, test } from 'vitest';
import { compareRelations, readRelations } from '../../src/observe/relations.ts';
import { catalogueDigest } from '../../src/proof/catalogue-digest.ts';
import { SchemaWatch } from '../../src/schema/schema-watch.ts';
import { type Scratch, scratch } from '../helpers/scratch.ts';
import { recordRatios } from './figures.ts';

/** Relations of one transaction: each takes locks, and a server holds only so many. */
const AT_ONCE = 500;
const TABLES = 10_000;

describe(`the reading of ${TABLES} tables`, () => {
  const times: Record<string, number> = {};
  const peaks: string[] = [];
  let database: Scratch;

  beforeAll(async () => {
    database = await scratch(18);
    for (let first = 0; first < TABLES; first += AT_ONCE) {
      const tables = Array.from(
        { length: AT_ONCE },
        (_, n) => `CREATE TABLE t${first + n} (id bigint PRIMARY KEY, v text)`,
      );
      await database.session.query(tables.join(';'));
    }
    await database.session.query('ANALYZE');
  }, 120_000);

  afterAll(async () => {
    recordRatios(`the reading of ${TABLES} tables`, times, 'schema, twice', peaks);
    await database.drop();
  });

  const measure = (name: string, work: () => Promise<unknown>) =>
    test(name, async () => {
      let peakBytes = 0;
      const sampler = setInterval(() => {
        peakBytes = Math.max(peakBytes, process.memoryUsage().rss);
      }, 20);
      const started = performance.now();
      await work();
      times[name] = performance.now() - started;
      clearInterval(sampler);
      peaks.push(`${name}: at most ${Math.round(peakBytes / 1e6)} MB resident.`);
    });

  const twice = async (migration: string, back: string) => {
    const watch = new SchemaWatch();
    await watch.before(database.settings);
    await database.session.query(migration);
    await watch.after();
    await watch.close();
    await database.session.query(back);
  };

  measure('catalogue digest', () => catalogueDigest(database.session));
  measure('schema, twice', () =>
    twice('ALTER TABLE t1 ADD COLUMN x integer', 'ALTER TABLE t1 DROP COLUMN x'),
  );
  measure('schema, with a rename', () => twice('ALTER TABLE t2 RENAME TO u2', 'ALTER TABLE u2 RENAME TO t2'));
  measure('rows and sizes, twice', async () => {
    const before = await readRelations(database.session);
    compareRelations(before, await readRelations(database.session, before), 0);
  });
});
