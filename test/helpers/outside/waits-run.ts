import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ServerVersion } from '../../../src/local-server/binaries.ts';
import type { PrintedReport } from '../../../src/model/report.ts';
import { temporaryFolder } from '../cli.ts';
import { counted, type Disagreement, isWithin, type Tolerance } from './disagreements.ts';
import { rehearseUnderWatch } from './watched-rehearsal.ts';

type Load = NonNullable<PrintedReport['load']>;

interface WaitNumber {
  readonly path: string;
  readonly reported: (load: Load) => number | undefined;
  /** Of the waits that the one client of the load has measured, in milliseconds. */
  readonly source: (waits: readonly number[]) => number;
  readonly within: Tolerance;
}

const sum = (waits: readonly number[]) => waits.reduce((one, other) => one + other, 0);
const TIME: Tolerance = { share: 0.05, beside: 50 };
const EXACTLY: Tolerance = { share: 0, beside: 0 };

/** What users would wait, by a client that waits. */
export const WAITS: readonly WaitNumber[] = [
  {
    path: 'load.longestWaitMs',
    reported: ({ longestWaitMs }) => longestWaitMs,
    source: (waits) => Math.max(...waits),
    within: TIME,
  },
  { path: 'load.blockedMs', reported: ({ blockedMs }) => blockedMs, source: sum, within: TIME },
  { path: 'load.someWaitedMs', reported: ({ someWaitedMs }) => someWaitedMs, source: sum, within: TIME },
  { path: 'load.mostWaiting', reported: ({ mostWaiting }) => mostWaiting, source: () => 1, within: EXACTLY },
  {
    path: 'load.blocked[].sessions',
    reported: ({ blocked }) => blocked[0]?.sessions,
    source: () => 1,
    within: EXACTLY,
  },
  {
    path: 'load.blocked[].longestMs',
    reported: ({ blocked }) => blocked[0]?.longestMs,
    source: (waits) => Math.max(...waits),
    within: TIME,
  },
  {
    path: 'load.blocked[].blockedMs',
    reported: ({ blocked }) => blocked[0]?.blockedMs,
    source: sum,
    within: TIME,
  },
];

const CLIENT = fileURLToPath(new URL('../commands/wait-for-table.mjs', import.meta.url));

const COMMAND = 'BEGIN; ALTER TABLE waited ADD COLUMN more int; SELECT pg_sleep(0.8); COMMIT';

/** Rehearses a command that blocks the one client of the load for some time. */
export async function measureWaits(version: ServerVersion): Promise<Disagreement[]> {
  const folder = temporaryFolder();
  const psql = ['psql', '-X', '-q', '-o', '/dev/null', ...COMMAND.split('; ').flatMap((sql) => ['-c', sql])];
  const programs = [['sh', '-c', 'exec "$@" "$DATABASE_URL"', 'sh', ...psql]];
  writeFileSync(path.join(folder, 'programs.json'), JSON.stringify({ atOnce: 1, programs }));
  return rehearseUnderWatch(
    version,
    {
      sql: 'CREATE TABLE waited AS SELECT 1 AS id',
      folder,
      args: ['--load-command', `exec '${process.execPath}' '${CLIENT}'`, '--permit', 'load-here'],
      env: { SAFEMIGRATE_LOAD_WARMUP: '1s' },
    },
    async ({ report }) => {
      const waits: number[] = JSON.parse(readFileSync(path.join(folder, 'waits.json'), 'utf8'));
      return WAITS.flatMap(({ path: number, reported, source, within }) => {
        const ours = report.load ? reported(report.load) : undefined;
        const agree = ours !== undefined && isWithin(ours, source(waits), within);
        return agree ? [] : counted(number, String(ours), String(source(waits)));
      });
    },
  );
}
