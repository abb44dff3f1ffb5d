import { expect, test } from 'vitest';
import { SafemigrateError } from '../../src/errors.ts';
import { failureBehind } from '../../src/stop.ts';

const reason = new SafemigrateError('REFUSED', 'Too much WAL.');
const aborted = AbortSignal.abort(reason);
const running = new AbortController().signal;

test('the failure behind a query or a wait that was cut off is the reason of the signal', () => {
  const query = new SafemigrateError('INTERRUPTED', 'Interrupted while a query ran.');
  const wait = new DOMException('The operation was aborted', 'AbortError');
  for (const error of [query, wait]) {
    expect(failureBehind(error, aborted)).toBe(reason);
    expect(failureBehind(error, running)).toBe(error);
  }
});

test('a failure of its own stays', () => {
  const own = new SafemigrateError('TARGET_CHANGED', 'Closed.');
  const refused = Object.assign(new Error('no slot'), { code: '55000', severity: 'ERROR' });
  for (const error of [own, refused]) expect(failureBehind(error, aborted)).toBe(error);
});
