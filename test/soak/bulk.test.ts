import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { sentStatements } from '../../src/model/repeated.ts';
import { recordFigures } from '../bench/figures.ts';
import { withClient } from '../helpers/client.ts';
import { ownServer } from '../helpers/own-server.ts';
import { rehearse } from '../helpers/rehearse.ts';
import { withDatabase } from '../helpers/target-state.ts';

let server: Server;
let url: string;

beforeAll(async () => {
  server = await ownServer(18);
  url = withDatabase(server.url, 'bulk');
  await withClient(server.url, (client) => client.query('CREATE DATABASE bulk'));
  await withClient(url, (client) => client.query('CREATE UNLOGGED TABLE t (v text)'));
});

afterAll(() => server.stop());

const ROW = 'x'.repeat(999);
const MAXIMUM_EXTRA_MEGABYTES = 50;

/** The whole tool's peak of resident memory when that many megabytes have gone in and out; seconds of the command. */
async function copied(megabytes: number): Promise<{ peak: number; seconds: number }> {
  let pid = 0;
  let peak = 0;
  const rows = megabytes * 1000;
  const script = `
    yes ${ROW} | head -n ${rows} | psql -X -q "$DATABASE_URL" -c 'COPY t FROM stdin' || exit 1
    test "$(psql -X "$DATABASE_URL" -c 'COPY t TO stdout' | wc -c)" = ${rows * 1000} || exit 2
    echo copied >&2; read go`;
  const { report, exitCode, stderr } = await rehearse(url, ['sh', '-c', script], {
    started: (child) => {
      pid = child;
    },
    typed: [
      [
        /copied/,
        async () => {
          const status = readFileSync(`/proc/${pid}/status`, 'utf8');
          peak = Number(/VmHWM:\s*(\d+) kB/.exec(status)?.[1]) / 1024;
          return 'go\n';
        },
      ],
    ],
  });
  expect(exitCode, stderr).toBe(0);
  expect(report.statements.map(({ tag, exactness }) => [tag, exactness])).toEqual([
    [`COPY ${rows}`, 'exact'],
    [`COPY ${rows}`, 'exact'],
  ]);
  return { peak, seconds: report.statements.reduce((sum, { durationMs }) => sum + durationMs, 0) / 1000 };
}

test('1 GB in and out by COPY takes the tool no more memory than 1 MB, within 50 MB', async () => {
  const small = await copied(1);
  const large = await copied(1000);
  recordFigures('COPY in and out through the built CLI: peak of resident memory', [
    { copied: '1 MB', 'peak MB': Math.round(small.peak), seconds: small.seconds.toFixed(1) },
    { copied: '1 GB', 'peak MB': Math.round(large.peak), seconds: large.seconds.toFixed(1) },
  ]);
  expect(large.peak - small.peak).toBeLessThanOrEqual(MAXIMUM_EXTRA_MEGABYTES);
});

const INSERTS = 1_000_000;

test('1,000,000 INSERTs take 300 MB of memory, 5 MB of JSON, 3 MB of HTML and 2 MB of receipt at most', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'safemigrate-soak-'));
  const [json, page] = [path.join(folder, 'report.json'), path.join(folder, 'report.html')];
  const receipt = path.join(folder, 'receipt.json');
  await withClient(url, (client) => client.query('CREATE TABLE numbered (id int, v text)'));
  let pid = 0;
  let peak = 0;
  const script = `
    (echo 'BEGIN;'; seq 1 ${INSERTS} | sed "s/.*/INSERT INTO numbered VALUES (&, 'row number &');/"; echo 'COMMIT;') |
      psql -X -q "$DATABASE_URL" || exit 1
    echo inserted >&2; read go`;
  const { report, exitCode, stderr } = await rehearse(url, ['sh', '-c', script], {
    args: ['--report', json, '--report', page, '--receipt', receipt],
    started: (child) => {
      pid = child;
    },
    typed: [
      [
        /inserted/,
        async () => {
          const status = readFileSync(`/proc/${pid}/status`, 'utf8');
          peak = Number(/VmHWM:\s*(\d+) kB/.exec(status)?.[1]) / 1024;
          return 'go\n';
        },
      ],
    ],
  });
  const [jsonMb = 0, pageMb = 0, receiptMb = 0] = [json, page, receipt].map(
    (file) => statSync(file).size / 1e6,
  );
  rmSync(folder, { recursive: true });
  expect(exitCode, stderr).toBe(0);
  recordFigures(`${INSERTS} INSERTs in one transaction, through the built CLI`, [
    {
      'peak of resident memory, MB': Math.round(peak),
      'JSON, MB': jsonMb,
      'HTML, MB': pageMb,
      'receipt, MB': receiptMb,
    },
  ]);
  expect(sentStatements(report.statements)).toBe(INSERTS + 2);
  expect(peak).toBeLessThan(300);
  expect(jsonMb).toBeLessThan(5);
  expect(pageMb).toBeLessThan(3);
  expect(receiptMb).toBeLessThan(2);
}, 3_600_000);
