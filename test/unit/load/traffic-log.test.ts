import { expect, test } from 'vitest';
import { readLog } from '../../../src/load/run-pgbench.ts';
import { type EndedTransaction, TrafficLog } from '../../../src/load/traffic-log.ts';

test('a transaction that was open while the command ran belongs to that time, whenever it ended', () => {
  const log = new TrafficLog();
  const start = performance.now();
  log.add({ startedMs: start, endedMs: start + 1, error: null });
  log.commandStarted();
  log.commandEnded();
  const end = performance.now();
  log.add({ startedMs: start, endedMs: end + 500, error: null });
  log.add({ startedMs: end + 10, endedMs: end + 20, error: null });
  const count = (name: 'before' | 'during' | 'after') => log.phase(name, 0, 1).transactions;
  // The first one may have ended before or after the command's start, which came at the same moment.
  expect(count('before') + count('during')).toBe(2);
  expect(count('after')).toBe(1);
  expect(log.phase('during', 0, 1).maxMs).toBeGreaterThanOrEqual(500);
});

test('only errors that came with the command or after it are listed, by their SQLSTATE', () => {
  const log = new TrafficLog();
  const error = { sqlstate: '42703', message: 'no such column', detail: '' };
  const at = performance.now() - 10;
  log.add({ startedMs: at, endedMs: at, error });
  log.commandStarted();
  const later = performance.now() + 1;
  for (let n = 0; n < 3; n++) log.add({ startedMs: later, endedMs: later, error });
  expect(log.failures).toEqual([{ sqlstate: '42703', message: 'no such column', count: 3 }]);
  expect(log.firstError).toBe('no such column');
});

test('the log of pgbench is read, with what failed and without what was skipped', () => {
  const ended: EndedTransaction[] = [];
  const epochS = Math.floor(performance.timeOrigin / 1000) + 5;
  readLog(
    [
      `0 1 2500 0 ${epochS} 250000`,
      `1 1 deadlock 0 ${epochS} 500000`,
      `2 2 skipped 0 ${epochS} 600000`,
      '',
    ].join('\n'),
    { add: (each) => ended.push(each) },
  );
  expect(ended).toHaveLength(2);
  const [first, second] = ended;
  expect((first?.endedMs ?? 0) - (first?.startedMs ?? 0)).toBeCloseTo(2.5);
  expect((second?.endedMs ?? 0) - (first?.endedMs ?? 0)).toBeCloseTo(250);
  expect(second?.error).toMatchObject({ sqlstate: '40P01' });
});

test('a long run has as many parts as one of 300 s, and each transaction is in one of them', () => {
  const log = new TrafficLog();
  const perMinute = Array.from({ length: 600 }, (_, minute) => log.startedMs + minute * 60_000 + 1);
  for (const endedMs of perMinute) log.add({ startedMs: endedMs - 1, endedMs, error: null });
  const parts = log.seconds(() => 0);
  expect(parts.length).toBeLessThanOrEqual(300);
  expect(parts.reduce((sum, { transactions }) => sum + transactions, 0)).toBe(600);
  expect(parts[1]?.atMs).toBe(parts[0]?.durationMs);
  expect(parts.at(-1)?.atMs).toBeGreaterThan(590 * 60_000 - (parts[0]?.durationMs ?? 0));
});
