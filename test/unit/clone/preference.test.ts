import { describe, expect, test } from 'vitest';
import { type Assessed, byPreference, whyChosen, withinLimit } from '../../../src/clone/choose.ts';
import type { MethodId } from '../../../src/clone/clone-settings.ts';
import type { Possible } from '../../../src/clone/method.ts';

const GB = 2 ** 30;

function possible(change: Partial<Possible> = {}): Possible {
  return {
    possible: true,
    strategy: 'copy',
    readyMs: 1_000,
    stallMs: 0,
    bytes: 0,
    endsSessions: false,
    isolation: 'own-cluster',
    containment: 'own-server',
    reason: 'it is a test',
    ...change,
  };
}

function way(id: MethodId, change: Partial<Possible> = {}): Assessed {
  return { method: { id }, assessment: possible(change) };
}

const noWay = (id: MethodId): Assessed => ({
  method: { id },
  assessment: { possible: false, reason: 'it is a test' },
});

const order = (...found: Assessed[]) => byPreference(found).map(({ method }) => method.id);

describe('which way to clone is taken', () => {
  test('the one that is ready soonest, of those that leave sessions alone', () => {
    expect(order(way('dump', { readyMs: 9_000 }), way('cluster', { readyMs: 900 }))).toEqual([
      'cluster',
      'dump',
    ]);
  });

  test('never one that ends sessions while another does not, however long that takes', () => {
    expect(
      order(way('template', { readyMs: 60, endsSessions: true }), way('dump', { readyMs: 10 * 3_600_000 })),
    ).toEqual(['dump', 'template']);
  });

  test('one that ends sessions where there is no other', () => {
    expect(order(noWay('cluster'), noWay('dump'), way('template', { endsSessions: true }))).toEqual([
      'template',
      'cluster',
      'dump',
    ]);
  });

  test('what the user has set up for it comes before all others', () => {
    expect(
      order(
        way('cluster'),
        way('external', { readyMs: 30_000, asked: true }),
        way('template', { readyMs: 50 }),
      ),
    ).toEqual(['external', 'template', 'cluster']);
  });

  test('what was set up and cannot work does not', () => {
    expect(order(noWay('external'), way('cluster'))).toEqual(['cluster', 'external']);
  });
});

describe('an isolated clone', () => {
  const sandboxed = (readyMs: number, bytes = 1) =>
    way('cluster', { readyMs, bytes, containment: 'sandbox' });
  const inTarget = (readyMs: number) => way('template', { readyMs, containment: 'target-server' });

  test('is taken if it is ready up to a second later, and the reason says so', () => {
    const sorted = byPreference([inTarget(100), sandboxed(1_000)]);
    expect(sorted.map(({ method }) => method.id)).toEqual(['cluster', 'template']);
    expect(whyChosen(sorted)).toBe(
      'preferred to template, which would be ready sooner, because it is isolated',
    );
  });

  test('is not waited for longer, and the reason says how long it would take', () => {
    const sorted = byPreference([sandboxed(5_000), inTarget(100)]);
    expect(sorted.map(({ method }) => method.id)).toEqual(['template', 'cluster']);
    expect(whyChosen(sorted)).toBe(
      'nothing isolated was chosen, because cluster would be ready in 5.0 s only',
    );
  });

  test('is waited for up to a minute if it shares all blocks with the target', () => {
    expect(order(sandboxed(30_000, 0), inTarget(100))).toEqual(['cluster', 'template']);
    expect(order(sandboxed(70_000, 0), inTarget(100))).toEqual(['template', 'cluster']);
  });

  test('is missed with the reason why it is impossible', () => {
    expect(whyChosen(byPreference([noWay('cluster'), inTarget(100)]))).toBe(
      'nothing isolated was chosen, because cluster is impossible: it is a test',
    );
    expect(whyChosen(byPreference([way('cluster', { readyMs: 900 }), inTarget(100)]))).toBe(
      'nothing isolated was chosen, because this machine permits no sandbox for cluster',
    );
  });

  test('is no matter where the user has set up a way, or no other is sooner', () => {
    expect(whyChosen([way('external', { asked: true, containment: 'other-server' }), noWay('cluster')])).toBe(
      '',
    );
    expect(whyChosen([sandboxed(900), way('dump', { readyMs: 9_000 })])).toBe('');
  });
});

describe('what is copied in full', () => {
  test('is copied up to the limit', () => {
    const at = possible({ bytes: 10 * GB });
    expect(withinLimit(at, 'dump', 10 * GB)).toBe(at);
  });

  test('above it is possible only when told so, and the refusal says how', () => {
    expect(withinLimit(possible({ bytes: 10 * GB + 1 }), 'dump', 10 * GB)).toEqual({
      possible: false,
      reason: '10 GB would be copied in full (copy), and --limit copy is 10 GB',
      enable: '--clone dump, or --limit copy above 10 GB',
    });
  });

  test('is nothing where blocks are shared, whatever the size', () => {
    const shared = possible({ strategy: 'reflink', bytes: 0 });
    expect(withinLimit(shared, 'cluster', 0)).toBe(shared);
  });
});
