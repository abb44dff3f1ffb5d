import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { lockReset } from '../../../src/local-server/first-state.ts';
import { ourStamp } from '../../../src/ownership/process-stamp.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'reset-lock-'));
});
afterEach(() => rm(folder, { recursive: true }));

/** As a process leaves it that was killed. */
async function leaveDead(name = 'reset.lock'): Promise<void> {
  const stamp = { ...(await ourStamp()), started: 'before' };
  await writeFile(path.join(folder, name), JSON.stringify(stamp));
}

const take = (count: number) => Promise.allSettled(Array.from({ length: count }, () => lockReset(folder)));
const held = (results: PromiseSettledResult<unknown>[]) =>
  results.filter(({ status }) => status === 'fulfilled').length;

test('is held by one at a time, and is free again afterwards', async () => {
  const release = await lockReset(folder);
  await expect(lockReset(folder)).rejects.toThrow(`is being reset by the process ${process.pid}`);
  await release();
  expect(await readdir(folder)).toEqual([]);
});

test('of a dead process is taken over by one of many', async () => {
  for (let round = 0; round < 30; round++) {
    await leaveDead();
    expect(held(await take(8))).toBe(1);
    await rm(path.join(folder, 'reset.lock'), { force: true });
  }
  expect(await readdir(folder)).toEqual([]);
});

test('of a dead process is taken over also if another one died while it did that', async () => {
  await leaveDead();
  await leaveDead('reset.lock.next');
  const release = await lockReset(folder);
  await expect(lockReset(folder)).rejects.toThrow('is being reset');
  await release();
  expect(await readdir(folder)).toEqual([]);
});
