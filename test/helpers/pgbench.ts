import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import type { Client } from 'pg';
import { withClient } from './client.ts';
import { until } from './cutting.ts';

const run = promisify(execFile);

/** Transactions of the kind of TPC-B, by as many sessions as it takes, without a pause. */
export interface Load {
  /** The server's processes that it works through. */
  sessions(): Promise<number[]>;
  /** Ends it; idempotent. @returns what every transaction took, and what went wrong. */
  end(): Promise<{ readonly transactions: Transaction[]; readonly errors: string }>;
}

export interface Transaction {
  /** When it was over, in milliseconds since 1970. */
  readonly at: number;
  readonly durationMs: number;
}

/** @returns why there is no pgbench, for skipReason(). */
export async function pgbenchObstacle(): Promise<string | null> {
  return run('pgbench', ['--version']).then(
    () => null,
    () => 'pgbench is not installed',
  );
}

/** Each of `scale` is 100,000 accounts, 15 MB. */
export async function fillForLoad(url: string, scale: number, tablespace?: string): Promise<void> {
  const place = tablespace === undefined ? [] : [`--tablespace=${tablespace}`];
  await run('pgbench', ['--initialize', '--quiet', `--scale=${scale}`, ...place, url]);
}

/** What every transaction keeps equal. */
export const SUMS = `
SELECT (SELECT sum(abalance) FROM pgbench_accounts)::int AS accounts, (SELECT sum(tbalance) FROM pgbench_tellers)::int AS tellers,
       (SELECT sum(bbalance) FROM pgbench_branches)::int AS branches,
       (SELECT coalesce(sum(delta), 0) FROM pgbench_history)::int AS history, (SELECT count(*) FROM pgbench_history)::int AS moves`;

/** @param perSecond how many transactions at most; default: as many as it can. @returns when all its sessions have committed something. */
export async function startLoad(url: string, clients: number, perSecond?: number): Promise<Load> {
  const folder = await mkdtemp(path.join(tmpdir(), 'safemigrate-pgbench-'));
  const rate = perSecond === undefined ? [] : ['-R', String(perSecond)];
  const words = ['-n', '-c', String(clients), '-j', '2', '-T', '3600', '-l', ...rate];
  const child = spawn('pgbench', [...words, `--log-prefix=${path.join(folder, 'log')}`, url], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const complaints = text(child.stderr);
  const closed = once(child, 'close');
  const sessions = () => withClient(url, (client) => sessionsOf(client));
  await withClient(url, (client) =>
    until('pgbench works', async () => {
      if (child.exitCode !== null) throw new Error(`pgbench ended: ${await complaints}`);
      const { rows } = await client.query<{ moves: number }>(
        'SELECT count(*)::int AS moves FROM pgbench_history',
      );
      return (rows[0]?.moves ?? 0) > 20 * clients && (await sessionsOf(client)).length === clients;
    }),
  );
  const finish = async () => {
    // It writes its log by the block, and loses what is in the last one: at 50 transactions per second that is five seconds.
    const asked = Date.now();
    await until('pgbench has written down what it did until now', async () => {
      return child.exitCode !== null || (await readLogs(folder)).some(({ at }) => at >= asked);
    });
    child.kill('SIGINT');
    await closed;
    const transactions = await readLogs(folder);
    await rm(folder, { recursive: true });
    return { transactions, errors: await complaints };
  };
  let ended: ReturnType<Load['end']> | undefined;
  return {
    sessions,
    end() {
      ended ??= finish();
      return ended;
    },
  };
}

async function sessionsOf(client: Client): Promise<number[]> {
  const { rows } = await client.query<{ pid: number }>(
    `SELECT pid FROM pg_stat_activity WHERE application_name = 'pgbench' ORDER BY pid`,
  );
  return rows.map(({ pid }) => pid);
}

/** A line has the client, its transaction, microseconds or `failed`, the script, seconds since 1970 and microseconds. */
async function readLogs(folder: string): Promise<Transaction[]> {
  const texts = await Promise.all(
    (await readdir(folder)).map((name) => readFile(path.join(folder, name), 'utf8')),
  );
  return texts.flatMap((log) =>
    // It writes by the block: the last line is cut.
    log
      .split('\n')
      .slice(0, -1)
      .map((line) => {
        const [, , micros, , seconds, rest] = line.split(' ');
        return { at: Number(seconds) * 1000 + Number(rest) / 1000, durationMs: Number(micros) / 1000 };
      }),
  );
}
