import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { keepTimes, pastApplies } from '../../../src/cli/earlier-applies.ts';
import type { Report } from '../../../src/model/report.ts';
import { temporaryFolder } from '../../helpers/cli.ts';

const HERE = { host: 'db.example', port: 5432, database: 'shop' };
const ELSEWHERE = { ...HERE, database: 'shop"2' };

const before = process.env.XDG_STATE_HOME;
let state = '';
beforeEach(() => {
  state = temporaryFolder();
  process.env.XDG_STATE_HOME = state;
});
afterEach(() => {
  if (before === undefined) delete process.env.XDG_STATE_HOME;
  else process.env.XDG_STATE_HOME = before;
});

const file = () => path.join(state, 'safemigrate', 'applied-times.jsonl');

function applied(target: typeof HERE, times: readonly (readonly [number, number])[]): Report {
  const comparedTimes = times.map(([rehearsedMs, appliedMs]) => ({ rehearsedMs, appliedMs }));
  return { run: { id: 'run1' }, target, apply: { outcome: 'applied', comparedTimes } } as unknown as Report;
}

test('of all applies those to the same target are found again', async () => {
  await keepTimes(applied(HERE, [[100, 220]]));
  await keepTimes(applied(ELSEWHERE, [[7, 8]]));
  await keepTimes(applied(HERE, [[50, 60]]));
  expect((await pastApplies(HERE)).map(({ times }) => times)).toEqual([[[100, 220]], [[50, 60]]]);
  expect((await pastApplies(ELSEWHERE)).map(({ times }) => times)).toEqual([[[7, 8]]]);
  expect(await pastApplies({ ...HERE, port: 5433 })).toEqual([]);
});

test('statements that took no time fill no file', async () => {
  const quick = Array.from({ length: 1000 }, () => [0.4, 0.5] as const);
  await keepTimes(applied(HERE, [...quick, [10, 20]]));
  expect((await pastApplies(HERE)).map(({ times }) => times)).toEqual([[[10, 20]]]);
  expect(readFileSync(file(), 'utf8').length).toBeLessThan(200);
});

test('a line that was cut off costs that line alone', async () => {
  await keepTimes(applied(HERE, [[100, 220]]));
  const [line = ''] = readFileSync(file(), 'utf8').split('\n');
  writeFileSync(file(), `${line.slice(0, -4)}\n${line}\n`);
  expect(await pastApplies(HERE)).toHaveLength(1);
});
