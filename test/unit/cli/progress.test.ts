import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { progress } from '../../../src/cli/progress.ts';
import type { TerminalStyle } from '../../../src/cli/style.ts';
import { displayWidth } from '../../../src/report/width.ts';

const live: TerminalStyle = { columns: 80, colour: true, unicode: true, interactive: true };
const plain: TerminalStyle = { ...live, colour: false, interactive: false };

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** What was written, and what a terminal would show of it. */
function fakeStream() {
  const written: string[] = [];
  return {
    write: (text: string) => written.push(text),
    text: () => written.join(''),
    screen: () =>
      written
        .join('')
        .split('\n')
        .map((line) => line.slice(line.lastIndexOf('\x1b[2K') + 1).replace(/^\[2K/, ''))
        .join('\n'),
  };
}

test('a phase is shown live with its elapsed time, redrawn in place', () => {
  const stream = fakeStream();
  const { emit, finish } = progress(stream, live);
  emit({ type: 'phase', phase: 'clone' });
  expect(stream.screen()).toBe('Cloning…  0 ms');
  vi.advanceTimersByTime(2300);
  expect(stream.screen()).toBe('Cloning…  2.3 s');
  expect(stream.text()).not.toContain('\n');
  finish();
  expect(stream.screen()).toBe('');
});

test('progress with a known end has a bar and a percentage, and 100 % only when all is done', () => {
  const stream = fakeStream();
  const { emit, finish } = progress(stream, live);
  emit({ type: 'phase', phase: 'clone' });
  emit({ type: 'progress', phase: 'clone', done: 5 * 1024 ** 3, of: 10 * 1024 ** 3, unit: 'bytes' });
  vi.advanceTimersByTime(100);
  expect(stream.screen()).toBe('Cloning…  [██████████░░░░░░░░░░]  50 %  5 GB of 10 GB  100 ms');
  emit({ type: 'progress', phase: 'clone', done: 9999, of: 10_000, unit: 'files' });
  vi.advanceTimersByTime(100);
  expect(stream.screen()).toContain(' 99 %  9,999 of 10,000 files');
  emit({ type: 'progress', phase: 'clone', done: 1204, unit: 'files' });
  vi.advanceTimersByTime(100);
  expect(stream.screen()).toBe('Cloning…  1,204 files  300 ms');
  finish();
});

test('a clone that follows is so many bytes behind', () => {
  const stream = fakeStream();
  const { emit, finish } = progress(stream, live);
  emit({ type: 'phase', phase: 'postponed' });
  emit({ type: 'progress', phase: 'postponed', done: 2048, unit: 'bytes behind' });
  vi.advanceTimersByTime(100);
  expect(stream.screen()).toBe('Waiting for the order to cut over…  2 kB behind  100 ms');
  finish();
});

test('a long phase with a known end shows the time that it still takes', () => {
  const stream = fakeStream();
  const { emit, finish } = progress(stream, live);
  emit({ type: 'phase', phase: 'compare' });
  emit({ type: 'progress', phase: 'compare', done: 1_000, of: 4_000, unit: 'rows' });
  vi.advanceTimersByTime(9_900);
  expect(stream.screen()).not.toContain('left');
  vi.advanceTimersByTime(100);
  expect(stream.screen()).toContain('25 %  1,000 of 4,000 rows  30 s left');
  emit({ type: 'progress', phase: 'compare', done: 4_000, of: 4_000, unit: 'rows' });
  vi.advanceTimersByTime(100);
  expect(stream.screen()).not.toContain('left');
  finish();
});

test('a notice erases the live line, stays, and the live line comes back below it', () => {
  const stream = fakeStream();
  const { emit, finish } = progress(stream, live);
  emit({ type: 'phase', phase: 'wait' });
  emit({ type: 'notice', message: 'one session is \x1b[31midle' });
  expect(stream.screen()).toBe('• one session is \\x1b[31midle\nWaiting for the target to be free…  0 ms');
  finish();
});

test('a command that waits for a lock has one line, rewritten with the age of the blocker and the ways out', () => {
  const stream = fakeStream();
  const { emit, finish } = progress(stream, live);
  emit({ type: 'phase', phase: 'command' });
  const since = new Date(Date.now() - 13_000).toISOString();
  const ways = 'pg_terminate_backend(4711) or --unblock';
  emit({ type: 'blocked', who: 'reports/metabase', since, ways });
  expect(stream.screen()).toBe(`Blocked by reports/metabase for 13 s: ${ways}`);
  vi.advanceTimersByTime(3000);
  expect(stream.screen()).toBe(`Blocked by reports/metabase for 16 s: ${ways}`);
  emit({ type: 'notice', message: 'ALTER did not get its lock; retry in 2.0 s (1 of 10)', passing: true });
  expect(stream.screen()).toBe('ALTER did not get its lock; retry in 2.0 s (1 of 10)');
  emit({ type: 'unblocked' });
  expect(stream.screen()).toBe('');
  expect(stream.text()).not.toContain('\n');
  finish();
});

test('elsewhere than on a terminal it has no line of its own, and attempts have one each', () => {
  const stream = fakeStream();
  const { emit, finish } = progress(stream, plain);
  emit({ type: 'blocked', who: 'app', since: null, ways: 'SELECT 1' });
  emit({ type: 'notice', message: 'retry in 2.0 s', passing: true });
  emit({ type: 'unblocked' });
  expect(stream.text()).toBe('• retry in 2.0 s\n');
  finish();
});

test('nothing is drawn in place while the command runs, whatever comes', () => {
  const stream = fakeStream();
  const { emit, finish } = progress(stream, live);
  emit({ type: 'phase', phase: 'command' });
  emit({ type: 'phase', phase: 'inspect' });
  vi.advanceTimersByTime(5000);
  expect(stream.text()).toBe('');
  emit({ type: 'notice', message: 'a lock is waited for' });
  vi.advanceTimersByTime(5000);
  expect(stream.text()).toBe('• a lock is waited for\n');
  emit({ type: 'phase-end', phase: 'inspect', durationMs: 10 });
  emit({ type: 'phase-end', phase: 'command', durationMs: 10_000 });
  finish();
  expect(stream.text()).toBe('• a lock is waited for\n✓ Ran the command in 10.0 s\n');
});

test('a phase within a phase takes the line and gives it back', () => {
  const stream = fakeStream();
  const { emit, finish } = progress(stream, live);
  emit({ type: 'phase', phase: 'clone' });
  emit({ type: 'phase', phase: 'wait' });
  expect(stream.screen()).toMatch(/^Waiting/);
  vi.advanceTimersByTime(700);
  emit({ type: 'phase-end', phase: 'wait', durationMs: 700 });
  expect(stream.screen()).toBe('✓ Waited for the target to be free in 700 ms\nCloning…  700 ms');
  finish();
});

test('without a terminal there are only whole lines: slow phases and notices', () => {
  const stream = fakeStream();
  const { emit, finish } = progress(stream, plain);
  emit({ type: 'phase', phase: 'connect' });
  emit({ type: 'phase-end', phase: 'connect', durationMs: 12 });
  emit({ type: 'phase', phase: 'clone' });
  emit({ type: 'progress', phase: 'clone', done: 1, of: 2, unit: 'files' });
  vi.advanceTimersByTime(3000);
  emit({ type: 'phase-end', phase: 'clone', durationMs: 3000, detail: 'template (copy)' });
  emit({ type: 'notice', message: 'kept' });
  finish();
  expect(stream.text()).toBe('✓ Cloned in 3.0 s: template (copy)\n• kept\n');
});

test.each([20, 40, 80])('the live line leaves the last of %i columns free', (columns) => {
  const stream = fakeStream();
  const { emit, finish } = progress(stream, { ...live, columns });
  emit({ type: 'phase', phase: 'before', detail: '客户订单'.repeat(40) });
  emit({ type: 'progress', phase: 'before', done: 123_456, of: 1_234_567, unit: 'relations' });
  vi.advanceTimersByTime(100);
  expect(displayWidth(stream.screen())).toBeLessThan(columns);
  finish();
});

test('after finish no timer is left that could draw', () => {
  const stream = fakeStream();
  const { emit, finish } = progress(stream, live);
  emit({ type: 'phase', phase: 'clone' });
  finish();
  expect(vi.getTimerCount()).toBe(0);
});

test('only ASCII where the terminal knows no more', () => {
  const stream = fakeStream();
  const { emit, finish } = progress(stream, { ...live, unicode: false });
  emit({ type: 'phase', phase: 'clone' });
  emit({ type: 'progress', phase: 'clone', done: 1, of: 4, unit: 'files' });
  vi.advanceTimersByTime(100);
  emit({ type: 'phase-end', phase: 'clone', durationMs: 600 });
  emit({ type: 'notice', message: 'x' });
  finish();
  expect(stream.text()).not.toMatch(/[^\p{ASCII}]/u);
});

test('a slow phase that failed is not called done: its error says the rest', () => {
  const stream = fakeStream();
  const { emit, finish } = progress(stream, plain);
  emit({ type: 'phase', phase: 'connect' });
  emit({ type: 'phase-end', phase: 'connect', durationMs: 3000, failed: true });
  finish();
  expect(stream.text()).toBe('');
});
