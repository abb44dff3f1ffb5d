import { bench, describe } from 'vitest';
import { compareRelations, readRelations } from '../../src/observe/relations.ts';
import { catalogueDigest } from '../../src/schema/digest.ts';
import { openSchemaWatch } from '../../src/schema/watch.ts';
import { type Scratch, scratch } from '../helpers/scratch.ts';

/** Relations of one transaction: each takes locks, and a server holds only so many. */
const AT_ONCE = 500;
const TABLES = 10_000;

const once = { iterations: 1, warmupIterations: 0, time: 0, warmupTime: 0 } as const;

// Benchmarks run no hooks: the database is made when the file is loaded.
const idle = process.memoryUsage().rss;
const database = await filled();
let peakBytes = 0;
const sampler = setInterval(() => {
  peakBytes = Math.max(peakBytes, process.memoryUsage().rss);
}, 20);

async function filled(): Promise<Scratch> {
  const made = await scratch(18);
  for (let first = 0; first < TABLES; first += AT_ONCE) {
    const tables = Array.from(
      { length: AT_ONCE },
      (_, n) => `CREATE TABLE t${first + n} (id bigint PRIMARY KEY, v text)`,
    );
    await made.session.query(tables.join(';'));
  }
  await made.session.query('ANALYZE');
  return made;
}

async function finish(): Promise<void> {
  clearInterval(sampler);
  const mb = (bytes: number) => Math.round(bytes / 1e6);
  console.log(`resident memory: ${mb(idle)} MB before, ${mb(peakBytes)} MB at most`);
  await database.drop();
}

describe(`${TABLES} tables`, () => {
  bench('catalogue digest', async () => void (await catalogueDigest(database.session)), {
    ...once,
    iterations: 5,
  });

  bench(
    'schema before, after and difference',
    async () => {
      const watch = await openSchemaWatch(database.settings);
      await watch.before();
      await database.session.query('ALTER TABLE t1 ADD COLUMN x integer');
      await watch.after();
      await watch.close();
      await database.session.query('ALTER TABLE t1 DROP COLUMN x');
    },
    once,
  );

  bench(
    'the same with a rename',
    async () => {
      const watch = await openSchemaWatch(database.settings);
      await watch.before();
      await database.session.query('ALTER TABLE t2 RENAME TO u2');
      await watch.after();
      await watch.close();
      await database.session.query('ALTER TABLE u2 RENAME TO t2');
    },
    once,
  );

  bench(
    'rows and sizes before and after',
    async () => {
      const before = await readRelations(database.session);
      compareRelations(before, await readRelations(database.session, before), { bytes: 0, shared: false });
    },
    { ...once, teardown: async (_task, mode) => (mode === 'run' ? finish() : undefined) },
  );
});
