import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants } from 'node:os';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from 'pg';
import { expect } from 'vitest';
import type { InterruptSignal } from '../../src/command/run-command.ts';
import type { Server } from '../../src/local-server/embedded.ts';
import { identifier } from '../../src/postgres/sql/quote.ts';
import { PROGRAM, plainEnvironment, safemigrate, sqlCommand } from './cli.ts';
import { withClient } from './client.ts';
import { changedUrl, withCloning } from './cloning.ts';
import { startRelay } from './relay.ts';

/** Where a run is cut off: before this request reaches the server, or right after, with nobody to hear the answer. */
export interface Cut {
  readonly at: number;
  readonly how: 'before' | 'after';
}

export interface Ended {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stderr: string;
  readonly requests: string[];
}

const MIGRATION = ['CREATE TABLE jobs (id int PRIMARY KEY)', 'INSERT INTO jobs VALUES (1)'].join('; ');

/** One whole rehearsal through a relay that calls back at each request. */
export async function rehearseThroughRelay(
  url: string,
  onRequest: (child: ChildProcess, index: number, text: string) => 'forward' | 'hold' = () => 'forward',
  command: readonly string[] = sqlCommand(MIGRATION),
): Promise<Ended> {
  let child: ChildProcess | undefined;
  const relay = await startRelay(url, (index, request) =>
    child ? onRequest(child, index, request) : 'forward',
  );
  const through = new URL(url);
  through.port = String(relay.port);
  through.searchParams.set('sslmode', 'disable');
  child = spawn(PROGRAM[0], [...PROGRAM.slice(1), '--', ...command], {
    env: { ...plainEnvironment(), SAFEMIGRATE_CLONE: 'template', DATABASE_URL: through.href },
    stdio: ['ignore', 'ignore', 'pipe'],
    detached: true,
  });
  try {
    const [exited, closed] = [once(child, 'exit'), once(child, 'close')];
    const stderr = child.stderr ? text(child.stderr) : '';
    await exited;
    // The command of a killed run may still wait for an answer that is held back, with our stderr in its hands.
    if (child.signalCode !== null) await relay.close();
    await closed;
    return {
      exitCode: child.exitCode,
      signal: child.signalCode,
      stderr: await stderr,
      requests: relay.requests,
    };
  } finally {
    await relay.close();
  }
}

/** The requests of a rehearsal that nobody disturbs, as a map of where it can be cut. */
export async function undisturbed(server: Server, database: string): Promise<string[]> {
  const { exitCode, stderr, requests } = await rehearseThroughRelay(withDatabase(server, database));
  expect({ exitCode, stderr: exitCode === 0 ? '' : stderr }).toEqual({ exitCode: 0, stderr: '' });
  return requests;
}

export function withDatabase(server: Server, database: string): string {
  return changedUrl(server.url, { database });
}

/** Databases for so many runs at once. */
export async function makeTargets(server: Server, count: number): Promise<string[]> {
  const names = Array.from({ length: count }, (_, index) => `app ${index}`);
  await withClient(server.url, async (client) => {
    for (const name of names) await client.query(`CREATE DATABASE ${identifier(name)}`);
  });
  return names;
}

export interface Figures {
  runs: number;
  /** How many left a database behind, marked or unmarked. */
  marked: number;
  unmarked: number;
}

/**
 * Kills a run at each of the cuts, several at a time, while another run is alive: then `list` shows what was left, all
 * of it judged as ours and dead, and `clean` drops exactly that.
 */
export async function killAt(server: Server, targets: string[], cuts: readonly Cut[]): Promise<Figures> {
  const figures: Figures = { runs: 0, marked: 0, unmarked: 0 };
  const [first = ''] = targets;
  const before = await databases(server);
  await withCloning(withDatabase(server, first), {}, async ({ make, context }) => {
    const living = await make();
    const rest = targets.slice(1);
    for (let from = 0; from < cuts.length; from += rest.length) {
      const batch = cuts.slice(from, from + rest.length);
      await Promise.all(batch.map((cut, index) => killOnce(withDatabase(server, rest[index] ?? ''), cut)));
      await backendsEnd(server, [context.control.pid]);
      await judge(server, [...before, living.database], living.database, figures);
      figures.runs += batch.length;
    }
  });
  expect(await databases(server)).toEqual(before);
  return figures;
}

async function killOnce(url: string, { at, how }: Cut): Promise<void> {
  let killed = false;
  const { signal } = await rehearseThroughRelay(url, (child, index) => {
    if (killed) return 'hold';
    if (index !== at) return 'forward';
    killed = true;
    child.kill('SIGKILL');
    return how === 'before' ? 'hold' : 'forward';
  });
  // A run has a few requests more or less from one time to the next: the last may be beyond its end.
  if (killed) expect(signal).toBe('SIGKILL');
}

/** Sends a run a signal at this request, which goes through: nothing may be left, and the exit code tells the signal. */
export async function signalAt(url: string, at: number, signal: InterruptSignal): Promise<void> {
  let sent: string | undefined;
  const {
    exitCode,
    signal: endedBy,
    stderr,
  } = await rehearseThroughRelay(url, (child, index, request) => {
    if (index === at) {
      sent = request;
      child.kill(signal);
    }
    return 'forward';
  });
  const expected = { exitCode: 128 + constants.signals[signal], endedBy: null };
  expect({ exitCode, endedBy }, `${signal} at request ${at}, ${sent}:\n${stderr}`).toEqual(expected);
}

async function judge(server: Server, expected: string[], living: string, figures: Figures): Promise<void> {
  const env = { DATABASE_URL: server.url };
  const left = (await databases(server)).filter((name) => !expected.includes(name));
  const list = await safemigrate(['list', '--format', 'json'], { env });
  const listed: { name: string; ownershipStatus: string; owning: string }[] = JSON.parse(list.stdout);
  expect(listed.map(({ name }) => name).sort()).toEqual([...left, living].sort());
  for (const { name, ownershipStatus, owning } of listed) {
    expect({ name, owning }).toEqual({ name, owning: name === living ? 'alive' : 'dead' });
    expect(ownershipStatus).toMatch(/^(marked|unmarked)$/);
    if (name === living) continue;
    if (ownershipStatus === 'marked') figures.marked++;
    else figures.unmarked++;
  }
  const cleaned = await safemigrate(['clean'], { env });
  expect(cleaned).toMatchObject({ exitCode: 0, stderr: '' });
  expect(cleaned.stdout.match(/^dropped .*$/gm) ?? []).toHaveLength(left.length);
  expect(await databases(server)).toEqual([...expected].sort());
}

export function databases(server: Server): Promise<string[]> {
  return withClient(server.url, async (client) => {
    const { rows } = await client.query<{ datname: string }>('SELECT datname::text FROM pg_database');
    return rows.map(({ datname }) => datname).sort();
  });
}

const OURS = `
SELECT pid, application_name, query FROM pg_stat_activity
 WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND pid <> ALL ($1)`;

/** A backend notices the end of its client within half a second while it works, else at once. */
async function backendsEnd(server: Server, but: number[]): Promise<void> {
  await withClient(server.url, (client) =>
    until('backends end', async () => (await client.query(OURS, [but])).rows.length === 0),
  );
}

export async function until(
  what: string,
  condition: () => Promise<boolean>,
  withinMs = 60_000,
): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`not within ${withinMs / 1000} s: ${what}`);
    await delay(10);
  }
}

/** Where a session of this statement runs. */
export async function isRunning(client: Client, statement: string): Promise<boolean> {
  const { rows } = await client.query(
    `SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid() AND query LIKE $1`,
    [`%${statement}%`],
  );
  return rows.length > 0;
}
