import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect } from 'vitest';
import type { ServerVersion } from '../../src/local-server/binaries.ts';
import type { Server } from '../../src/local-server/embedded.ts';
import { PROGRAM, plainEnvironment, safemigrate, sqlCommand } from './cli.ts';
import { withClient } from './client.ts';
import { until } from './cutting.ts';
import type { Place } from './online-places.ts';
import { ownServer } from './own-server.ts';
import { type Decision, startRelay } from './relay.ts';
import { SHADOWED_TABLES, type ShadowedWriters, startShadowedWriters } from './shadowed-writers.ts';
import { guardOf, inDatabase } from './swapping.ts';

const APP = 'app';
const WRITERS = 2;
const PAUSE_MS = 20;

/** A target of online swaps, one after the other, that clients write meanwhile. */
export interface OnlineTarget {
  readonly server: Server;
  readonly url: string;
  trials: number;
}

/** Settings of a server on which a database follows another one. */
export function replicating(version: ServerVersion): Record<string, string> {
  return {
    // From 19 on the server decodes once there is a slot.
    wal_level: version >= 19 ? 'replica' : 'logical',
    // By default a worker that has ended is started again after 5 s, and before 16 no two workers sooner after each other.
    wal_retrieve_retry_interval: '200ms',
  };
}

/** A server with a target, for the tests of a file or a block. */
export function onlineTarget(version: ServerVersion): () => OnlineTarget {
  let target: OnlineTarget | undefined;
  beforeAll(async () => {
    const server = await ownServer(version, {
      settings: { ...replicating(version), max_slot_wal_keep_size: '4GB' },
    });
    target = { server, url: inDatabase(server.url, APP), trials: 0 };
    await withClient(server.url, async (client) => {
      await client.query(`CREATE DATABASE ${APP}`);
      await client.query(`COMMENT ON DATABASE ${APP} IS 'the users'' own'`);
    });
    await withClient(target.url, (client) => client.query(SHADOWED_TABLES));
  });
  afterAll(() => target?.server.stop());
  return () => {
    if (!target) throw new Error('its server has not started');
    return target;
  };
}

/** The two backends by which a database follows another one. They are terminated: kill -9 of one restarts the whole server. */
const FOLLOWING_BACKENDS = {
  worker: "SELECT pid FROM pg_stat_activity WHERE backend_type LIKE 'logical replication%worker'",
  // Statements about subscriptions have one as well, for a moment, and so have slots a session that makes or advances them.
  walsender: `SELECT pid FROM pg_stat_activity JOIN pg_replication_slots ON active_pid = pid WHERE backend_type = 'walsender'`,
} as const;

/** Ends those of a kind that are there. @returns how many. */
export async function endFollowing({ server }: OnlineTarget, kind: keyof typeof FOLLOWING_BACKENDS) {
  const sql = `SELECT pg_terminate_backend(pid) FROM (${FOLLOWING_BACKENDS[kind]}) found`;
  return withClient(server.url, async (client) => (await client.query(sql)).rows.length);
}

export interface Trial {
  readonly place: Place;
  /** Called at the place. */
  readonly disturb: (run: {
    readonly child: ChildProcess;
    readonly agent: number;
  }) => Decision | Promise<Decision>;
  /** Of the tool: limits, mostly. */
  readonly options?: readonly string[];
  /** `name:password` of the swap and of the clients. Default: the superuser's. */
  readonly user?: string;
  readonly migration?: string;
  /** The original follows, and takes the target's place again in the end, with all rows. */
  readonly wayBack?: boolean;
}

export interface TrialResult {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
  /** `swap` of the report, if there is one. */
  readonly swap:
    | {
        outcome: string;
        reasons: string[];
        online: { attempts: number | null; wayBack: { failure: string | null } | null };
      }
    | undefined;
  readonly reached: boolean;
  /** The target has the migration. */
  readonly swapped: boolean;
  /** Everything of the swap on the server after its process, and the reopen agent, ended: its original included. */
  readonly left: readonly string[];
  /**
   * Time until the target was open, in milliseconds: from the end of the process, after which its agent repairs, or from the start of
   * `clean` if the agent is dead as well.
   */
  readonly openAfterMs: number;
}

/** Clients begin to write here: for the rehearsal, on a clone by template, the target is idle. */
const FIRST = /^CREATE PUBLICATION/;

/**
 * One online swap under load, disturbed at a place. However it ends, the target is open and clients write again, each acknowledged
 * row is there once, and `clean` leaves nothing. Nobody but the tool and its reopen agent has to do anything, unless both are dead.
 */
export async function disturbedSwap(target: OnlineTarget, trial: Trial): Promise<TrialResult> {
  await emptied(target);
  const left = [...trial.place];
  let writers: ShadowedWriters | undefined;
  let child: ChildProcess | undefined;
  let agent: number | undefined;
  let reached = false;
  const relay = await startRelay(target.server.url, async (_, request) => {
    if (!child?.pid || (!writers && !FIRST.test(request))) return 'forward';
    if (!writers || agent === undefined) {
      const started = startShadowedWriters(urlFor(target, trial), WRITERS, PAUSE_MS);
      writers = started;
      await until('clients write', async () => started.committed() > 10);
      agent = await guardOf(child.pid);
    }
    if (reached || !left[0]?.test(request)) return 'forward';
    left.shift();
    if (left.length > 0) return 'forward';
    reached = true;
    return trial.disturb({ child, agent });
  });
  try {
    child = start(target, relay.port, trial);
    const opened = once(child, 'exit').then(() => openAfter(target, () => isAlive(agent)));
    const output = Promise.all([child.stdout && text(child.stdout), child.stderr && text(child.stderr)]);
    await once(child, 'close');
    const [stdout, stderr] = (await output).map((each) => each ?? '') as [string, string];
    const { exitCode, signalCode: signal } = child;
    const swap = stdout === '' ? undefined : JSON.parse(stdout).swap;
    const after = await settle(target, writers, { agent, opened, wayBack: trial.wayBack ?? false });
    return { exitCode, signal, stdout, stderr, swap, reached, ...after };
  } finally {
    child?.kill('SIGKILL');
    await writers?.stop();
    await relay.close();
  }
}

function urlFor({ url }: OnlineTarget, { user }: Trial): string {
  return user === undefined ? url : url.replace(/\/\/[^@]*@/, `//${user}@`);
}

function start(target: OnlineTarget, port: number, trial: Trial): ChildProcess {
  const through = new URL(urlFor(target, trial));
  through.port = String(port);
  through.searchParams.set('sslmode', 'disable');
  const migration =
    trial.migration ?? `ALTER TABLE orders ADD COLUMN extra_${target.trials} int NOT NULL DEFAULT 7`;
  const words = ['swap', '--online', '--yes', '--format', 'json', '--limit', 'cut-over=3s'];
  if (trial.wayBack) words.push('--way-back', '1h');
  return spawn(
    PROGRAM[0],
    [...PROGRAM.slice(1), ...words, ...(trial.options ?? []), '--', ...sqlCommand(migration)],
    {
      env: { ...plainEnvironment(), SAFEMIGRATE_CLONE: 'template', DATABASE_URL: through.href },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    },
  );
}

/** Removes all rows, for writers that remember their own only. */
export async function emptied(target: OnlineTarget): Promise<void> {
  target.trials++;
  await withClient(target.url, (client) => client.query('TRUNCATE orders, lines, events, markers'));
}

async function settle(
  target: OnlineTarget,
  writers: ShadowedWriters | undefined,
  run: { agent: number | undefined; opened: Promise<number | undefined>; wayBack: boolean },
): Promise<Pick<TrialResult, 'swapped' | 'left' | 'openAfterMs'>> {
  const { url } = target;
  const { agent } = run;
  // It ends once the target is open, or stays for the way back. If it is dead, too, the target stays closed until somebody cleans.
  await until('the reopen agent ends', async () => {
    return !isAlive(agent) || (run.wayBack && (await isSwapped(target).catch(() => false)));
  });
  const byAgent = await run.opened;
  const left = await extras(target).catch(() => ['the target is closed']);
  let cleans = true;
  const cleaning = cleaned(url).finally(() => {
    cleans = false;
  });
  const [byClean] = await Promise.all([openAfter(target, () => cleans), cleaning]);
  if (writers) await judgeRows(writers, url);
  const swapped = await isSwapped(target);
  if (swapped && run.wayBack) {
    const back = await safemigrate(['rollback', '--yes', '--limit', 'cut-over=10s', '--url', url]);
    expect(back, back.stderr).toMatchObject({ exitCode: 0 });
    expect((await writers?.compare(url))?.wrong).toEqual([]);
  }
  const kept = await extras(target);
  const aside = run.wayBack ? /^database app_rolledback_/ : ORIGINAL;
  expect(kept).toEqual(swapped ? [expect.stringMatching(aside)] : []);
  if (swapped)
    await safemigrate(['clean', '--originals', '--rolled-back', '--older-than', '0s', '--url', url]);
  if (agent !== undefined && isAlive(agent)) {
    // It would notice at its next look that the way back is over.
    process.kill(agent, 'SIGTERM');
    await until('the reopen agent ends', async () => !isAlive(agent));
  }
  return { swapped, left, openAfterMs: byAgent ?? byClean ?? Number.NaN };
}

const ORIGINAL = /^database app_before_/;

async function isSwapped(target: OnlineTarget): Promise<boolean> {
  return (await extras(target)).some((extra) => ORIGINAL.test(extra));
}

const OPEN_POLL_MS = 2;

/** @returns the time until the target was open, in milliseconds; undefined if nobody is left to open it. */
async function openAfter(target: OnlineTarget, somebodyOpens: () => boolean): Promise<number | undefined> {
  const startedAt = performance.now();
  for (let waits = true; waits; ) {
    waits = somebodyOpens();
    if (await isOpen(target)) return performance.now() - startedAt;
    await delay(OPEN_POLL_MS);
  }
  return undefined;
}

async function cleaned(url: string): Promise<void> {
  await until('clean finds nothing of a living run', async () => {
    const { exitCode, stdout, stderr } = await safemigrate(['clean', '--url', url]);
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
    return !/alive|cannot be seen/.test(stdout);
  });
}

async function judgeRows(writers: ShadowedWriters, url: string): Promise<void> {
  const before = writers.committed();
  await until('clients write again', async () => writers.committed() > before + 3);
  await writers.stop();
  const { rows, wrong } = await writers.compare(url);
  expect(wrong).toEqual([]);
  expect(rows).toBeGreaterThan(0);
}

function isAlive(pid: number | undefined): boolean {
  if (pid === undefined) return false;
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

async function isOpen({ server }: OnlineTarget): Promise<boolean> {
  const sql = 'SELECT datallowconn AS open FROM pg_database WHERE datname = $1';
  return withClient(server.url, (client) => client.query<{ open: boolean }>(sql, [APP])).then(
    ({ rows }) => rows[0]?.open ?? false,
    () => false,
  );
}

const EXTRAS = `
SELECT 'database ' || datname AS name FROM pg_database WHERE datname NOT IN ('postgres', 'app') AND NOT datistemplate
UNION ALL SELECT 'comment ' || coalesce(shobj_description(oid, 'pg_database'), 'none') FROM pg_database
 WHERE datname = 'app' AND shobj_description(oid, 'pg_database') IS DISTINCT FROM 'the users'' own'
UNION ALL SELECT 'slot ' || slot_name FROM pg_replication_slots
UNION ALL SELECT 'subscription ' || subname FROM pg_subscription
UNION ALL SELECT 'publication ' || pubname FROM pg_publication
UNION ALL SELECT 'origin ' || roname FROM pg_replication_origin
UNION ALL SELECT 'session ' || application_name FROM pg_stat_activity WHERE application_name LIKE 'safemigrate%'`;

/** Names everything that is only there because of a swap. */
async function extras({ url }: OnlineTarget): Promise<string[]> {
  const { rows } = await withClient(url, (client) => client.query<{ name: string }>(EXTRAS));
  return rows.map(({ name }) => name);
}
