import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { type ErrorCode, SafemigrateError } from '../../src/errors.ts';
import { measured } from '../../src/measured.ts';
import type { Caveat } from '../../src/model/report.ts';

const aborted = () => delay(1000, undefined, { signal: AbortSignal.abort() });
const throwing = (code: ErrorCode) => () => Promise.reject(new SafemigrateError(code, code));

test('a part that cannot be read is null, and a caveat gives the reason', async () => {
  const caveats: Caveat[] = [];
  for (const read of [() => Promise.reject(new Error('no')), throwing('CONNECTION'), throwing('PRIVILEGE')])
    expect(await measured(caveats, 'data', read)).toBeNull();
  expect(caveats).toEqual(
    ['no', 'CONNECTION', 'PRIVILEGE'].map((reason) => ({ path: 'data', kind: 'unmeasured', reason })),
  );
});

test.each([
  ['a lost connection', throwing('LOST')],
  ['an interrupt', throwing('INTERRUPTED')],
  ['an interrupted pause', aborted],
] as const)('%s ends the run', async (_, read) => {
  const caveats: Caveat[] = [];
  await expect(measured(caveats, 'data', read)).rejects.toThrow();
  expect(caveats).toEqual([]);
});
