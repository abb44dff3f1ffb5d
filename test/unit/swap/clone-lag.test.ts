import { expect, test } from 'vitest';
import { CloneLag, thinned } from '../../../src/swap/online/clone-lag.ts';

const samples = Array.from({ length: 5_000 }, (_, at) => ({
  atMs: at * 10,
  behindBytes: at === 1_234 ? 1_000_000 : 5_000 - at,
}));

test('samples are thinned to a number of points that keeps the largest one, in the order of time', () => {
  const points = thinned(samples, 60);
  expect(points).toHaveLength(60);
  expect(points).toContainEqual({ atMs: 12_340, behindBytes: 1_000_000 });
  const times = points.map(({ atMs }) => atMs);
  expect(times).toEqual(times.toSorted((one, other) => one - other));
  // Each part of the time has a point.
  expect(times.every((ms, part) => ms >= part * 833 - 10 && ms <= (part + 1) * 834)).toBe(true);
});

test('few samples stay as they are, and so do several of one moment', () => {
  expect(thinned(samples.slice(0, 60), 60)).toEqual(samples.slice(0, 60));
  expect(thinned([], 60)).toEqual([]);
  const atOnce = Array.from({ length: 61 }, (_, at) => ({ atMs: 5, behindBytes: at }));
  expect(thinned(atOnce, 60)).toEqual([{ atMs: 5, behindBytes: 60 }]);
});

test('many samples become few points, of which the largest is one', () => {
  const lag = new CloneLag();
  lag.begin('0/0');
  for (let at = 0; at < 3_000; at++) lag.add(at === 700 ? 9e9 : -at);
  const points = lag.points();
  expect(points.length).toBeLessThanOrEqual(60);
  expect(Math.max(...points.map(({ behindBytes }) => behindBytes))).toBe(9e9);
  expect(Math.min(...points.map(({ behindBytes }) => behindBytes))).toBe(0);
});
