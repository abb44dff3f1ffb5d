import { expect, test } from 'vitest';
import { rateCaveats, rateOf } from '../../../src/rehearsal/load-traffic.ts';

const before = { durationMs: 4000, transactions: 384 };

test('a load that plays another rate than was counted is said to, beyond what chance makes of it', () => {
  const said = (played: number, durationMs = 4000) =>
    rateCaveats({ wanted: 96, played }, { durationMs }).map(({ path, reason }) => `${path}: ${reason}`);
  expect(said(96)).toEqual([]);
  expect(said(80)).toEqual([]);
  expect(said(6)).toEqual([
    'load.rate: the load had 6 transactions a second before the command, and should have had 96: more sessions would wait on the target than here',
  ]);
  expect(said(200)).toEqual([expect.stringContaining('fewer sessions would wait')]);
  expect(said(66, 1000), 'within chance in one second').toEqual([]);
});

test('pgbench plays the rate that was asked for, and a command has none', () => {
  const scripts = { kind: 'pgbench', program: 'pgbench', scripts: [] } as const;
  expect(rateOf(scripts, { rate: 100 }, before)).toEqual({ wanted: 100, played: 96 });
  expect(rateOf(scripts, { rate: null }, before).wanted).toBeNull();
  expect(rateOf({ kind: 'command', shell: 'k6' }, { rate: null }, before).wanted).toBeNull();
  expect(rateOf(scripts, { rate: 1 }, { durationMs: 0, transactions: 0 }).played).toBeNull();
});
