import type { ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { readdir, readFile, readlink } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { until } from './cutting.ts';
import { type Decision, startRelay } from './relay.ts';
import {
  endGroup,
  makeTrialTarget,
  settle,
  startTrialLoad,
  stopFor,
  type TrialTarget,
  withTool,
} from './swap-trials.ts';
import { guardOf } from './swapping.ts';
import type { WriteLoad } from './write-load.ts';

/**
 * What is done at one request of a swap or a rollback. *Before*: it does not reach the server; *after*: it was carried out,
 * and nobody heard the answer. `kill` and `crash` are kill -9 of safemigrate and of the postmaster, `cut` ends the one
 * connection, `stop` stops safemigrate before the request, while somebody opens the target.
 */
export const STEP_DISTURBANCES = [
  'kill before',
  'kill after',
  'crash before',
  'crash after',
  'cut before',
  'cut after',
  'stop',
] as const;
export type StepDisturbance = (typeof STEP_DISTURBANCES)[number];

export interface StepFigures {
  /** Of the swap or rollback that nobody disturbed. */
  steps: number;
  trials: number;
  done: number;
  notDone: number;
  /** Steps that did not come up again: it looks more or less often whether everybody has gone. */
  notReached: number;
  acknowledged: number;
  /** Of those, while safemigrate was stopped. */
  whileStopped: number;
}

export interface Walk {
  readonly how: StepDisturbance;
  readonly back: boolean;
  /** Which of the steps, by name and index. Default: all. */
  readonly wanted?: (step: string, at: number) => boolean;
  /** For how long `stop` stops it. */
  readonly stopMs: number;
  readonly tell?: (outcome: string) => void;
}

/**
 * Disturbs a swap (or a rollback) under load at each of its steps in turn, from the checkpoint before the target is closed
 * to the end of the run; several servers of `open` at once. What must be so after each is said at settle().
 * @throws with the step where it is not so.
 */
export async function walkSteps(servers: readonly Server[], walk: Walk): Promise<StepFigures> {
  const { back, wanted = () => true } = walk;
  const figures = {
    steps: 0,
    trials: 0,
    done: 0,
    notDone: 0,
    notReached: 0,
    acknowledged: 0,
    whileStopped: 0,
  };
  const targets = await Promise.all(servers.map(makeTrialTarget));
  await Promise.all(targets.map((target) => (back ? undisturbed(target, false) : undefined)));
  const [first] = targets;
  const steps = first ? await undisturbed(first, back) : [];
  figures.steps = steps.length;
  const left = steps
    .map((step, at) => ({ step, at }))
    .filter(({ step, at }) => wanted(step, at) && isAnswered(step, walk.how))
    .values();
  await Promise.all(
    targets.map(async (target) => {
      // Each takes the next one from the same iterator.
      for (const { step, at } of left) await disturbAt(target, { ...walk, steps, at, step }, figures);
    }),
  );
  return figures;
}

/** Names of the requests of a run. The last COMMIT is the one of the renames. */
async function undisturbed(target: TrialTarget, back: boolean): Promise<string[]> {
  const steps: string[] = [];
  const { exitCode, done } = await throughRelay(target, back, (step) => {
    steps.push(step);
    return 'forward';
  });
  expect({ exitCode, done }).toEqual({ exitCode: 0, done: true });
  return steps;
}

function isAnswered(step: string, how: StepDisturbance): boolean {
  return !(how.endsWith('after') && step.startsWith('terminate'));
}

interface At extends Walk {
  readonly steps: readonly string[];
  readonly at: number;
  readonly step: string;
}

async function disturbAt(target: TrialTarget, at: At, figures: StepFigures): Promise<void> {
  const { how, back, step, stopMs, tell = () => {} } = at;
  const named = `${how} ${back ? 'rollback' : 'swap'} at ${step}`;
  try {
    let hit = false;
    let crash: Promise<void> | undefined;
    const result = await throughRelay(target, back, async (name, child, load): Promise<Decision> => {
      if (hit || name !== step) return 'forward';
      hit = true;
      if (how === 'stop') {
        const then = load.acknowledged.size;
        await stopFor(child, target.server, stopMs);
        figures.whileStopped += load.acknowledged.size - then;
        return 'forward';
      }
      const disturb = () => {
        if (how.startsWith('kill')) endGroup(child, 'SIGKILL');
        if (how.startsWith('crash')) crash = crashAndRestart(target.server);
      };
      if (how.endsWith('after')) return { onAnswer: disturb };
      disturb();
      return 'cut';
    });
    await crash;
    const { exitCode, done, acknowledged } = result;
    if (hit) {
      figures.trials++;
      figures[done ? 'done' : 'notDone']++;
      expect(wronglyDone(at, done), 'done or not, against where it was disturbed').toBeUndefined();
      // By the exit code. With 5 a person must look; killed it has none.
      if (exitCode !== null && exitCode !== 5)
        expect({ exitCode, done }).toEqual({ exitCode, done: exitCode === 0 });
    } else figures.notReached++;
    figures.acknowledged += acknowledged;
    tell(
      `${named}: ${hit ? (done ? 'done' : 'not done') : 'not reached'}, exit code ${exitCode}, ${acknowledged} rows`,
    );
  } catch (cause) {
    throw new Error(named, { cause });
  }
}

/** It is the COMMIT of the renames that decides, where nobody goes on after it. */
function wronglyDone({ how, steps, at }: At, done: boolean): string | undefined {
  if (!/^(kill|crash)/.test(how)) return undefined;
  const commit = steps.findLastIndex((step) => step.startsWith('COMMIT'));
  const expected = how.endsWith('after') ? at >= commit : at > commit;
  return done === expected ? undefined : `${done ? '' : 'not '}done at step ${at}, renamed at ${commit}`;
}

/** Clients begin to write right before this one, and safemigrate's guard is there. */
const FIRST = 'CHECKPOINT';

/**
 * One swap or rollback over a relay, under load from before the target is closed, and what came of it.
 * @param decide is asked at each request from there on.
 */
async function throughRelay(
  target: TrialTarget,
  back: boolean,
  decide: (step: string, child: ChildProcess, load: WriteLoad) => Decision | Promise<Decision>,
): Promise<{ exitCode: number | null; done: boolean; acknowledged: number }> {
  const counts = new Map<string, number>();
  let child: ChildProcess | undefined;
  let load: WriteLoad | undefined;
  let guard = 0;
  const relay = await startRelay(target.server.url, async (_, text) => {
    if (!child?.pid || (!load && !text.startsWith(FIRST))) return 'forward';
    if (!load) {
      load = startTrialLoad(target);
      const { acknowledged } = load;
      await until('clients write', async () => acknowledged.size > 20);
      guard = await guardOf(child.pid);
    }
    const name = nameOf(text);
    const nth = (counts.get(name) ?? 0) + 1;
    counts.set(name, nth);
    return decide(`${name} (${nth})`, child, load);
  });
  try {
    const through = new URL(target.url);
    through.port = String(relay.port);
    through.searchParams.set('sslmode', 'disable');
    const tool = { url: through.href, back, env: { SAFEMIGRATE_CLONE: 'template' } };
    const exitCode = await withTool(tool, async (started) => {
      child = started;
    });
    if (!load) throw new Error(`it did not come to ${FIRST}: exit code ${exitCode}`);
    const done = await settle(target, load, back);
    // It reaches the server over the relay.
    await until('the guard ends', async () => !(await isAlive(guard)));
    return { exitCode, done, acknowledged: load.acknowledged.size };
  } finally {
    await load?.stop();
    await relay.close();
  }
}

/** What it is in every run alike. */
function nameOf(text: string): string {
  return text
    .trim()
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/(_rehearsal_|_before_|_rolledback_)\w+/g, '$1…')
    .replace(/(COMMENT ON .* IS) .*/, '$1 …')
    .replace(/(CONNECTION LIMIT) \d{10}\b/, '$1 …')
    .slice(0, 120);
}

async function isAlive(pid: number): Promise<boolean> {
  // A process that nobody has collected has no command line.
  return (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')) !== '';
}

/** What the postmaster has started ends by itself, and a new one refuses to start before that. */
async function crashAndRestart(server: Server): Promise<void> {
  const data = path.join(server.folder, 'data');
  const [pid] = readFileSync(path.join(data, 'postmaster.pid'), 'utf8').split('\n');
  process.kill(Number(pid), 'SIGKILL');
  await until('the backends end', async () => !(await someoneWorksIn(data)));
  await server.restart('immediate');
}

async function someoneWorksIn(folder: string): Promise<boolean> {
  for (const pid of await readdir('/proc'))
    if (/^\d+$/.test(pid) && (await readlink(`/proc/${pid}/cwd`).catch(() => '')) === folder) return true;
  return false;
}
