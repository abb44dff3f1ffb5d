import { spawn } from 'node:child_process';
import { expect, test } from 'vitest';
import { query } from '../../../src/postgres/protocol/messages.ts';
import { temporaryDatabase, withClient } from '../../helpers/database.ts';
import { withProxy } from '../../helpers/proxy.ts';
import { RawClient } from '../../helpers/raw-client.ts';

const MEGABYTE = 1024 * 1024;
const ROWS = 200_000;
/** 200 MB of text in all. */
const ROW = 'x'.repeat(1000);

/** Memory that the process, in which the proxy is, takes more while something runs. */
async function extraMemory(run: () => Promise<void>): Promise<number> {
  globalThis.gc?.();
  const before = process.memoryUsage().rss;
  let most = before;
  const timer = setInterval(() => {
    most = Math.max(most, process.memoryUsage().rss);
  }, 10);
  await run();
  clearInterval(timer);
  return (most - before) / MEGABYTE;
}

function shell(command: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn('/bin/sh', ['-c', command], { stdio: ['ignore', 'pipe', 'inherit'] });
    let output = '';
    child.stdout.on('data', (chunk: Buffer) => {
      output += chunk.toString();
    });
    child.on('error', reject);
    child.on('close', (code) =>
      code === 0 ? resolve(output.trim()) : reject(new Error(`exit code ${code}`)),
    );
  });
}

test.each([
  ['COPY in', (url: string) => `yes ${ROW} | head -n ${ROWS} | psql '${url}' -qc 'copy t from stdin'`],
  [
    'COPY out',
    (url: string) =>
      `psql '${url}' -qc "copy (select repeat('x', 1000) from generate_series(1, ${ROWS})) to stdout" | wc -l`,
  ],
  [
    'a result',
    (url: string) =>
      `psql '${url}' -Atqc "begin; declare c no scroll cursor for select repeat('x', 1000) from generate_series(1, ${ROWS}); fetch 50000 from c; fetch 50000 from c; commit" | wc -l`,
  ],
])(
  '200 MB by %s go through in no more than 60 MB',
  async (_name, command) => {
    const database = await temporaryDatabase(18, { sql: 'create unlogged table t (v text)' });
    await withProxy(database.url, {}, async ({ url }) => {
      await shell(`psql '${url}' -qc 'select 1' > /dev/null`);
      expect(await extraMemory(async () => void (await shell(command(url))))).toBeLessThan(60);
    });
    await database.drop();
  },
  60_000,
);

test('a text or a value too large to be looked at goes through, and the next statement is observed again', async () => {
  const database = await temporaryDatabase(18, { sql: 'create table t (v text)' });
  await withProxy(database.url, {}, async ({ url, statements }) => {
    await withClient(url, async (client) => {
      await client.query(`insert into t values ('${'x'.repeat(3 * MEGABYTE)}')`);
      await client.query('insert into t values ($1)', ['y'.repeat(3 * MEGABYTE)]);
      await client.query('alter table t add column w int');
      const { rows } = await client.query('select sum(length(v)) as sum from t');
      expect(rows).toEqual([{ sum: String(6 * MEGABYTE) }]);
    });
    expect(statements().map(({ outcome, locks }) => [outcome?.tag, locks?.exactness])).toEqual([
      ['INSERT 0 1', 'sampled'],
      ['INSERT 0 1', 'exact'],
      ['ALTER TABLE', 'exact'],
      ['SELECT 1', 'exact'],
    ]);
  });
});

test('a client that does not read makes the server wait, not the memory grow', async () => {
  const database = await temporaryDatabase(18);
  await withProxy(database.url, {}, async ({ url }) => {
    const client = await RawClient.connect(url, { application_name: 'slow' });
    client.upstream.socket.pause();
    const extra = await extraMemory(async () => {
      client.send(query(`select repeat('x', 1000) from generate_series(1, ${ROWS})`));
      await withClient(database.url, (other) =>
        expect
          .poll(
            async () =>
              (
                await other.query(
                  "select 1 from pg_stat_activity where application_name = 'slow' and wait_event = 'ClientWrite'",
                )
              ).rowCount,
            { timeout: 60_000 },
          )
          .toBe(1),
      );
    });
    expect(extra).toBeLessThan(60);
    client.upstream.socket.destroy();
  });
}, 60_000);
