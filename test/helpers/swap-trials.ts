import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { identifier } from '../../src/postgres/sql/quote.ts';
import { type CliResult, PROGRAM, plainEnvironment, safemigrate, sqlCommand } from './cli.ts';
import { withClient } from './client.ts';
import { until } from './cutting.ts';
import { inDatabase } from './swapping.ts';
import { LOAD_TABLE, missing, startWriteLoad, type WriteLoad } from './write-load.ts';

/** What is done to a swap or a rollback while clients write; `kill alone` leaves the command alive. */
export const DISTURBANCES = ['none', 'kill', 'terminate', 'crash', 'stop', 'kill alone'] as const;
export type Disturbance = (typeof DISTURBANCES)[number];

export interface TrialFigures {
  readonly trials: number;
  readonly acknowledged: number;
  /** By what was done, and what came of it: `kill swap: not done`. */
  readonly outcomes: Readonly<Record<string, number>>;
  readonly reopenedByGuardMs: readonly number[];
}

const APP = 'app';
const COMMENT = "the users' own";
const CLIENTS = 4;
/** Every so-manieth trial one of these is slow to start each time, which everything then waits for. */
const WITH_NEWCOMER = 3;

/** A sequence of numbers in [0, 1) that the seed decides. */
function randomNumbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A target of trials, one after the other, with all that clients were told is in it. */
export interface TrialTarget {
  readonly server: Server;
  readonly url: string;
  /** Numbers of rows that must be there. */
  readonly expected: Set<number>;
  /** Names of the originals that are kept. */
  originals: readonly string[];
  trials: number;
}

export async function makeTrialTarget(server: Server): Promise<TrialTarget> {
  const url = inDatabase(server.url, APP);
  await withClient(server.url, async (client) => {
    await client.query(`CREATE DATABASE ${APP}`);
    await client.query(`COMMENT ON DATABASE ${APP} IS 'the users'' own'`);
  });
  await withClient(url, (client) => client.query(LOAD_TABLE));
  return { server, url, expected: new Set(), originals: [], trials: 0 };
}

/** Clients of the target, for one trial. */
export function startTrialLoad(target: TrialTarget): WriteLoad {
  const trial = target.trials++;
  return startWriteLoad(target.url, CLIENTS, trial * 1_000_000, trial % WITH_NEWCOMER === 0 ? 1 : 0);
}

/**
 * After a swap or a rollback, however it ended: before anybody does anything the target is open and clients write again; every
 * acknowledged row is there, and `clean` leaves nothing unmarked. @returns whether the target is another database than before.
 */
export async function settle(target: TrialTarget, load: WriteLoad, back: boolean): Promise<boolean> {
  // Those whose sessions were not ended yet would write into a target that stays closed.
  await until('the target is open', () => isOpen(target.server).catch(() => false));
  await until('clients write again', grows(load));
  await load.stop();
  for (const id of load.acknowledged) target.expected.add(id);
  return judge(target, back);
}

/**
 * Swaps and rollbacks of one target, one after the other, each disturbed after a random one of its statements, while
 * clients write. After each one every acknowledged row must be there, the target open, and nothing unmarked left.
 * @param disturbances taken in turn. @throws with the seed and the number of the trial where it is not so.
 */
export async function runTrials(
  server: Server,
  options: {
    seed: number;
    trials: number;
    disturbances?: readonly Disturbance[];
    /** For how long `stop` stops it. Default 1,000: the guard looks twice as often. */
    stopMs?: number;
    tell?: (outcome: string) => void;
  },
): Promise<TrialFigures> {
  const { seed, trials, disturbances = DISTURBANCES, stopMs = 1_000, tell = () => {} } = options;
  const random = randomNumbers(seed);
  const target = await makeTrialTarget(server);
  const outcomes: Record<string, number> = {};
  const reopenedByGuardMs: number[] = [];
  let acknowledged = 0;
  for (let trial = 0; trial < trials; trial++) {
    const how = disturbances[trial % disturbances.length] ?? 'none';
    const back = target.originals.length > 0 && random() < 0.6;
    const load = startTrialLoad(target);
    try {
      const result = await disturbed(server, { back, how, stopMs, after: Math.floor(random() ** 2 * 60) });
      reopenedByGuardMs.push(...result.reopenedMs);
      const done = await settle(target, load, back);
      acknowledged += load.acknowledged.size;
      const key = `${how} ${back ? 'rollback' : 'swap'}: ${done ? 'done' : 'not done'}`;
      outcomes[key] = (outcomes[key] ?? 0) + 1;
      tell(`${trial}: ${key}; ${load.acknowledged.size} rows`);
    } catch (cause) {
      throw new Error(`seed ${seed}, trial ${trial} (${how}, ${back ? 'rollback' : 'swap'})`, { cause });
    } finally {
      await load.stop();
    }
  }
  return { trials, acknowledged, outcomes, reopenedByGuardMs };
}

function grows({ acknowledged }: WriteLoad): () => Promise<boolean> {
  const before = acknowledged.size;
  return async () => acknowledged.size > before;
}

interface Trial {
  readonly back: boolean;
  readonly how: Disturbance;
  readonly stopMs: number;
  /** So many statements after the first one that closes the target. */
  readonly after: number;
}

async function disturbed(
  server: Server,
  { back, how, stopMs, after }: Trial,
): Promise<{ reopenedMs: number[] }> {
  const reopenedMs: number[] = [];
  await withTool({ url: inDatabase(server.url, APP), back }, async (child, audit) => {
    if (how === 'none' || !(await comesTo(child, audit, after))) return;
    if (how === 'kill' || how === 'kill alone') {
      const killedAt = performance.now();
      if (how === 'kill') endGroup(child, 'SIGKILL');
      else child.kill('SIGKILL');
      if (!(await isOpen(server))) {
        await until('the guard opens the target', () => isOpen(server));
        reopenedMs.push(performance.now() - killedAt);
      }
    }
    if (how === 'terminate') child.kill('SIGTERM');
    if (how === 'crash') await server.restart('immediate');
    if (how === 'stop') await stopFor(child, server, stopMs);
  });
  return { reopenedMs };
}

/**
 * A swap or a rollback by the built CLI, for as long as it takes.
 * @param during is given the file of its `--audit` as well. @returns its exit code, null where it was killed.
 */
export async function withTool(
  { url, back, env }: { url: string; back: boolean; env?: NodeJS.ProcessEnv },
  during: (child: ChildProcess, audit: string) => Promise<void>,
): Promise<number | null> {
  const folder = await mkdtemp(path.join(tmpdir(), 'safemigrate-trial-'));
  const audit = path.join(folder, 'audit');
  const words = back
    ? ['rollback', '--yes', '--discard-writes', '--audit', audit]
    : ['swap', '--yes', '--disconnect', 'all', '--audit', audit, '--', ...sqlCommand('SELECT 1')];
  const child = spawn(PROGRAM[0], [...PROGRAM.slice(1), ...words], {
    cwd: folder,
    env: { ...plainEnvironment(), SAFEMIGRATE_CLONE: 'template', DATABASE_URL: url, ...env },
    stdio: 'ignore',
    detached: true,
  });
  const closed = once(child, 'close');
  try {
    await during(child, audit);
    await closed;
    return child.exitCode;
  } finally {
    endGroup(child, 'SIGKILL');
    await rm(folder, { recursive: true, force: true });
  }
}

/** The command is of the same process group. */
export function endGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  try {
    if (child.pid !== undefined) process.kill(-child.pid, signal);
  } catch {
    // It has ended by itself.
  }
}

/** @returns false where it ended before. */
async function comesTo(child: ChildProcess, audit: string, after: number): Promise<boolean> {
  while (child.exitCode === null && child.signalCode === null) {
    const lines = existsSync(audit) ? readFileSync(audit, 'utf8').split('\n') : [];
    const first = lines.findIndex((line) =>
      line.includes(`ALTER DATABASE \\"${APP}\\" ALLOW_CONNECTIONS false`),
    );
    if (first >= 0 && lines.length - 1 > first + after) return true;
    await delay(1);
  }
  return false;
}

/** Somebody finds the target closed, opens it, and clients write for a while; then the run goes on. */
export async function stopFor(child: ChildProcess, server: Server, stopMs: number): Promise<void> {
  child.kill('SIGSTOP');
  try {
    await withClient(server.url, async (client) => {
      await client.query(`SET lock_timeout = '500ms'; ALTER DATABASE ${APP} ALLOW_CONNECTIONS true`);
    }).catch(() => {});
    // Long enough for the clients that were turned away to come back.
    await delay(stopMs);
  } finally {
    child.kill('SIGCONT');
  }
}

async function isOpen(server: Server): Promise<boolean> {
  const { rows } = await withClient(server.url, (client) =>
    client.query<{ open: boolean }>('SELECT datallowconn AS open FROM pg_database WHERE datname = $1', [APP]),
  );
  return rows[0]?.open ?? false;
}

interface Listed {
  readonly name: string;
  readonly ownershipStatus: string;
  readonly role: string;
}

async function kept(url: string): Promise<string[]> {
  const { stdout } = await safemigrate(['list', '--format', 'json', '--url', url]);
  const listed: Listed[] = JSON.parse(stdout);
  return listed
    .filter(({ role, ownershipStatus }) => role !== 'clone' && ownershipStatus === 'marked')
    .map(({ name }) => name);
}

/** @param back a rollback, which was told to, leaves rows behind in the database that is kept: they are expected no more. */
async function judge(target: TrialTarget, back: boolean): Promise<boolean> {
  const { server, url, expected } = target;
  let cleaned: CliResult | undefined;
  await until('clean finds nothing of a living run', async () => {
    cleaned = await safemigrate(['clean', '--url', url]);
    return !/alive|cannot be seen/.test(cleaned.stdout);
  });
  expect(cleaned).toMatchObject({ exitCode: 0, stderr: '' });
  const originals = await kept(url);
  const { rows } = await withClient(server.url, (client) =>
    client.query<{ name: string; open: boolean; comment: string | null }>(
      `SELECT datname::text AS name, datallowconn AS open, shobj_description(oid, 'pg_database') AS comment
         FROM pg_database WHERE datname NOT IN ('postgres', 'template0', 'template1') ORDER BY datname`,
    ),
  );
  expect(rows.map(({ name }) => name)).toEqual([APP, ...originals].sort());
  expect(rows.find(({ name }) => name === APP)).toMatchObject({ open: true, comment: COMMENT });
  const lost = await missing(url, expected);
  const newest = originals.filter((name) => !target.originals.includes(name));
  const nowhere = back ? await missingIn(server, newest, new Set(lost)) : lost;
  expect(nowhere, 'acknowledged rows that are lost').toEqual([]);
  for (const id of lost) expected.delete(id);
  target.originals = originals;
  if (originals.length > 3) {
    expect(
      await safemigrate(['clean', '--originals', '--rolled-back', '--older-than', '0s', '--url', url]),
    ).toMatchObject({
      exitCode: 0,
    });
    target.originals = [];
  }
  return newest.length > 0;
}

async function missingIn(server: Server, places: readonly string[], ids: Set<number>): Promise<number[]> {
  let left = ids;
  for (const name of left.size > 0 ? places : []) {
    const door = (open: boolean) =>
      withClient(server.url, (client) =>
        client.query(`ALTER DATABASE ${identifier(name)} ALLOW_CONNECTIONS ${open}`),
      );
    await door(true);
    left = new Set(await missing(inDatabase(server.url, name), left));
    await door(false);
  }
  return [...left];
}
