import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { CloneContext } from '../../../src/clone/method.ts';
import type { ServiceClone } from '../../../src/clone/services/clone-service.ts';
import { allServices, type ListedService, serviceOf } from '../../../src/clone/services/service-list.ts';
import { nameOfClone } from '../../../src/clone/services/service-name.ts';
import {
  endOfUpgrade,
  offeredRelease,
  type UpgradingService,
  upgradeClone,
  upgradesClones,
} from '../../../src/clone/services/upgrade-clone.ts';
import { newRunId } from '../../../src/ownership/run-id.ts';

const NAME = nameOfClone({ run: newRunId(), place: 'abcde', ttlMs: 3_600_000, kept: false });
const CLONE: ServiceClone = {
  id: 'db-1',
  name: NAME,
  state: 'ready',
  asOf: null,
  doubt: null,
  release: '17.2',
};
const CONTEXT = {
  signal: new AbortController().signal,
  options: { ttlMs: 60_000 },
} as unknown as CloneContext;
const MINUTE_MS = 60_000;

/** RDS, with these clones and offers, that notes what is ordered. */
async function fakeService(clones: readonly ServiceClone[], offers: readonly string[] = []) {
  const ordered: string[] = [];
  const service: UpgradingService = {
    ...((await serviceOf('rds')) as ListedService),
    list: async () => [...clones],
    upgrade: {
      offered: async () => [...offers],
      order: async (_, { name }) => {
        ordered.push(name);
        return [];
      },
      explain: async () => ({ events: [], log: [] }),
    },
  };
  return { service, ordered };
}

const order = {
  source: ['shop'],
  name: NAME,
  expiresAt: new Date(Date.now() + 3_600_000).toISOString(),
  database: 'shop',
  user: 'app',
};
const made = {
  order,
  facts: { instance: null, asOf: null },
  ready: CLONE,
  asOf: null,
  keep: async () => {},
};

describe('an upgrade by a service', () => {
  test('is had of those that the page names', async () => {
    const able = (await allServices()).filter(upgradesClones).map(({ id }) => id);
    expect(able).toEqual(['rds', 'aurora']);
  });

  test.each<[string, readonly ServiceClone[]]>([
    ['lacks our tag', [{ ...CLONE, doubt: 'it lacks the tag safemigrate' }]],
    ['is another one with the same name', [{ ...CLONE, id: 'db-2' }]],
    ['is one of two', [CLONE, { ...CLONE, id: 'db-2' }]],
    ['is gone', []],
  ])('is not ordered for a clone that %s', async (_, clones) => {
    const { service, ordered } = await fakeService(clones);
    await expect(upgradeClone(service, CONTEXT, made, '18.1')).rejects.toMatchObject({ code: 'NOT_OURS' });
    expect(ordered).toEqual([]);
  });

  test('is not ordered for something with a name that safemigrate does not give', async () => {
    const ready = { ...CLONE, name: 'shop' };
    const { service, ordered } = await fakeService([ready]);
    const other = { ...made, ready, order: { ...order, name: 'shop' } };
    await expect(upgradeClone(service, CONTEXT, other, '18.1')).rejects.toMatchObject({ code: 'NOT_OURS' });
    expect(ordered).toEqual([]);
  });

  test('is to the newest release of the version', async () => {
    const { service } = await fakeService([], ['17.6', '18.9', '18.10', '18.2', '19.1']);
    await expect(offeredRelease(service, CONTEXT, ['shop'], made.facts, 18)).resolves.toBe('18.10');
    await expect(offeredRelease(service, CONTEXT, ['shop'], made.facts, 20)).rejects.toMatchObject({
      code: 'CLONE',
    });
  });
});

describe('an upgrade by AWS', () => {
  /** Returns the options of the order, and the differences that it tells. */
  async function ordered(id: 'rds' | 'aurora', described: object) {
    const calls: (readonly string[])[] = [];
    const cli = {
      text: async (args: readonly string[]) => {
        calls.push(args);
        return '';
      },
      json: () => Promise.reject(new Error('nothing is read')),
    };
    const facts = { instance: null, asOf: null, described };
    const { upgrade } = await serviceOf(id);
    const differences = await upgrade?.order(cli, CLONE, '18.1', { source: ['shop'], facts });
    return { words: calls.map((args) => args.join(' ')), differences };
  }

  test.each<['rds' | 'aurora', (group: string) => object, string]>([
    ['rds', (name) => ({ DBParameterGroups: [{ DBParameterGroupName: name }] }), 'default.postgres18'],
    [
      'aurora',
      (name) => ({ Engine: 'aurora-postgresql', DBClusterParameterGroup: name }),
      'default.aurora-postgresql18',
    ],
  ])('leaves a parameter group of the old version behind, and says so: %s', async (id, described, group) => {
    const own = await ordered(id, described('shop'));
    expect(own.words).toEqual([expect.stringMatching(`${NAME} .*-parameter-group-name ${group} `)]);
    expect(own.differences).toEqual([expect.stringContaining('the settings of shop were not tried')]);
    const usual = await ordered(id, described(group.replace('18', '17')));
    expect(usual.words[0]).not.toContain('parameter-group');
    expect(usual.differences).toEqual([]);
  });
});

describe('the end of an upgrade', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }));
  afterEach(() => void vi.useRealTimers());
  const at = (ms: number) => vi.advanceTimersByTime(ms);

  test('is there once the clone is ready in the new release', () => {
    const judge = endOfUpgrade('18.1');
    expect(judge(CLONE)).toBeUndefined();
    expect(judge({ ...CLONE, state: 'creating', isUpgradePending: true })).toBeUndefined();
    expect(judge({ ...CLONE, state: 'creating', release: '18.1' })).toBeUndefined();
    expect(judge({ ...CLONE, release: '18.1' })).toMatchObject({ release: '18.1' });
  });

  test('is a failure if the clone stays as it was for some time after the upgrade began', () => {
    const judge = endOfUpgrade('18.1');
    expect(judge({ ...CLONE, isUpgradePending: true })).toBeUndefined();
    at(5 * MINUTE_MS);
    expect(judge({ ...CLONE, state: 'creating' })).toBeUndefined();
    expect(judge(CLONE)).toBeUndefined();
    at(10_000);
    expect(judge({ ...CLONE, isUpgradePending: true })).toBeUndefined();
    expect(judge(CLONE)).toBeUndefined();
    at(14_000);
    expect(judge(CLONE)).toBeUndefined();
    at(1_000);
    expect(judge(CLONE)).toBe('the clone is still PostgreSQL 17.2 afterwards');
  });

  test.each([true, false])(
    'is a failure if it never begins, with the order pending: %s',
    (isUpgradePending) => {
      const judge = endOfUpgrade('18.1');
      expect(judge({ ...CLONE, isUpgradePending })).toBeUndefined();
      at(9 * MINUTE_MS);
      expect(judge({ ...CLONE, isUpgradePending })).toBeUndefined();
      at(MINUTE_MS);
      expect(judge({ ...CLONE, isUpgradePending })).toContain('still PostgreSQL 17.2 after 10 min');
    },
  );

  test.each<[string, ServiceClone | undefined]>([
    ['is gone', undefined],
    ['is deleted', { ...CLONE, state: 'deleting' }],
    ['has failed', { ...CLONE, state: 'failed' }],
  ])('is a failure if the clone %s', (_, clone) => {
    expect(endOfUpgrade('18.1')(clone)).toMatch(/^the clone /);
  });
});
