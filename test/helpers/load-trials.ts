import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import { WaitMonitor } from '../../src/load/wait-monitor.ts';
import { newestClientPrograms } from '../../src/local-server/client-programs.ts';
import type { LoadSection } from '../../src/model/report.ts';
import { openSession } from '../../src/postgres/connection/connect.ts';
import { parseSettings } from '../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../src/postgres/connection/environment.ts';
import { withClient } from './client.ts';
import { type Rehearsal, rehearse } from './rehearse.ts';

/** Clients of pgbench, and their transactions a second. */
export const TRIAL_CLIENTS = 6;
export const TRIAL_RATE = 150;

const settingsOf = (url: string) => parseSettings(url, readEnvironment({}, '/'));

export async function pgbenchProgram(): Promise<string> {
  const found = await newestClientPrograms(['pgbench']);
  if (!found) throw new Error('pgbench is not installed');
  return path.join(found.folder, 'pgbench');
}

/** pgbench works on the database while the function runs. @param scripts `FILE`, or `FILE@weight` */
export async function underTraffic<T>(
  url: string,
  scripts: readonly string[],
  work: () => Promise<T>,
): Promise<T> {
  const words = ['-n', '-c', String(TRIAL_CLIENTS), '-j', '1', '-R', String(TRIAL_RATE), '-T', '600'];
  const files = scripts.flatMap((script) => ['-f', script]);
  const child = spawn(await pgbenchProgram(), [...words, ...files, '--max-tries=1', url], {
    stdio: 'ignore',
  });
  const ended = once(child, 'exit');
  try {
    await delay(1000);
    return await work();
  } finally {
    child.kill('SIGKILL');
    await ended;
  }
}

/** What sessions felt of a migration. */
export interface Felt {
  readonly blockedMs: number;
  readonly longestMs: number;
  readonly deadlocks: number;
}

/** Applies a migration under pgbench as it would be without any tool, statement by statement. */
export async function feltReally(
  url: string,
  scripts: readonly string[],
  statements: readonly string[],
): Promise<Felt> {
  const connect = () => openSession(settingsOf(url), { purpose: 'monitor' });
  const monitor = new WaitMonitor(connect, performance.now());
  const client = new Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query('SELECT pg_backend_pid() AS pid');
  const names = { user: '', database: '', application: '', parameters: [] };
  monitor.observe({ type: 'session', session: 1, pid: rows[0].pid, ...names });
  try {
    await underTraffic(url, scripts, async () => {
      await delay(2000);
      for (const sql of statements) await client.query(sql);
      await delay(2000);
    });
  } catch (error) {
    // The migration was the one that was rolled back.
    if ((error as { code?: string }).code !== '40P01') throw error;
  } finally {
    await client.end();
    await monitor.stop();
  }
  const blockedMs = [...monitor.blocked.values()].reduce((sum, each) => sum + each.blockedMs, 0);
  return { blockedMs, longestMs: monitor.longestMs, deadlocks: await deadlocksOf(url) };
}

/** The server's own counter: of the session that reads it nothing is late. */
async function deadlocksOf(url: string): Promise<number> {
  await delay(1500);
  return withClient(url, async (client) => {
    const { rows } = await client.query(
      'SELECT deadlocks::int AS n FROM pg_stat_database WHERE datname = current_database()',
    );
    return rows[0].n;
  });
}

/** Rehearses a command under load. @throws if there was no run under load */
export async function rehearsedUnderLoad(
  url: string,
  command: readonly string[],
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<Rehearsal & { load: LoadSection }> {
  const result = await rehearse(url, command, { env: { SAFEMIGRATE_CLONE: 'cluster', ...env }, args });
  const { load, verdict } = result.report;
  if (!load) throw new Error(verdict.reasons.join('\n'));
  return { ...result, load };
}

/** The statements of a file that has none over several of its lines. */
export function statementsIn(file: string): string[] {
  return readFileSync(file, 'utf8')
    .split(/;\n/)
    .filter((sql) => sql.trim() !== '');
}
