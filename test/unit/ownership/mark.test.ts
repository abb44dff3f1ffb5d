import { describe, expect, test } from 'vitest';
import { formatMark, type Mark, ownedName, parseMark, parseOwnedName } from '../../../src/ownership/mark.ts';
import { newRunId } from '../../../src/ownership/run-id.ts';

const run = newRunId(1_763_700_000_123);
const WORDS = {
  clone: 'rehearsal',
  original: 'before',
  'rolled-back': 'rolledback',
  probe: 'probe',
} as const;
const ROLES = ['clone', 'original', 'rolled-back', 'probe'] as const;
const TARGETS = [
  'app',
  '',
  'a b',
  'it"s',
  "it's",
  '$1',
  'a_rehearsal_b',
  'x'.repeat(63),
  'é'.repeat(40),
  '漢字'.repeat(20),
  '🚀'.repeat(20),
  'x🚀'.repeat(12),
  'back\\slash',
];

describe('the name of something that safemigrate makes', () => {
  test.each(TARGETS)('fits into 63 bytes, keeps the run and cuts no character: %s', (target) => {
    for (const role of ROLES) {
      const name = ownedName(target, role, run);
      expect(Buffer.byteLength(name)).toBeLessThanOrEqual(63);
      expect(parseOwnedName(name)).toEqual({ role, run });
      const stem = name.slice(0, -`_${WORDS[role]}_${run}`.length);
      expect(target.startsWith(stem)).toBe(true);
      expect(Buffer.from(name, 'utf8').toString('utf8')).toBe(name);
      expect(name).not.toMatch(/[\ud800-\udbff](?![\udc00-\udfff])/);
    }
  });

  test('uses all the bytes there are', () => {
    expect(Buffer.byteLength(ownedName('x'.repeat(63), 'clone', run))).toBe(63);
    expect(Buffer.byteLength(ownedName('🚀'.repeat(20), 'clone', run))).toBeGreaterThan(59);
  });

  test('is taken as it is where it fits', () => {
    expect(ownedName('app', 'clone', run)).toBe(`app_rehearsal_${run}`);
  });

  test.each([
    `app_rehearsal_${run}x`,
    `app_rehearsal_${run.slice(1)}`,
    `app_rehearsal_${run.toUpperCase()}`,
    `app_copy_${run}`,
    `app_rehearsal_${run}\n`,
    `rehearsal_${run}`,
    run,
  ])('is not recognised in %j', (name) => {
    expect(parseOwnedName(name)).toBeUndefined();
  });

  test('is that of a clone of a clone: the last part counts', () => {
    const second = newRunId(1_763_700_999_999);
    expect(parseOwnedName(ownedName(ownedName('a', 'probe', run), 'clone', second))).toEqual({
      role: 'clone',
      run: second,
    });
  });
});

const mark: Mark = {
  version: 1,
  run,
  role: 'clone',
  targetOid: 4_294_967_295,
  state: 'ready',
  at: { database: 'it\'s "x" \\ 🚀\n', oid: 16_384 },
  lockDatabaseOid: 5,
};

describe('a mark', () => {
  test('is read back as it was written', () => {
    expect(parseMark(formatMark(mark))).toEqual(mark);
    expect(parseMark(formatMark({ ...mark, kept: true }))).toEqual({ ...mark, kept: true });
    const original: Mark = { ...mark, role: 'original', keepUntil: '2026-11-28T16:00:00.000Z' };
    expect(parseMark(formatMark(original))).toEqual(original);
  });

  test('that knows more than this version does is still read', () => {
    expect(parseMark(`safemigrate: ${JSON.stringify({ ...mark, mood: 'good' })}`)).toEqual(mark);
  });

  test.each([null, '', 'the shop', 'Safemigrate: {}', ' safemigrate: {}', JSON.stringify(mark)])(
    'is not ours: %j',
    (text) => {
      expect(parseMark(text)).toBe('foreign');
    },
  );

  test.each([
    {},
    null,
    [],
    { ...mark, version: 2 },
    { ...mark, run: '0000000000001' },
    { ...mark, run: 5 },
    { ...mark, role: 'target' },
    { ...mark, targetOid: -1 },
    { ...mark, targetOid: '5' },
    { ...mark, at: {} },
    { ...mark, at: { database: 'x', oid: 0 } },
    { ...mark, lockDatabaseOid: 1.5 },
    { ...mark, kept: 'yes' },
    { ...mark, keepUntil: 'soon' },
    { ...mark, pgbouncer: 'localhost:6432' },
    JSON.parse('{"__proto__": {"version": 1}}'),
  ])('that cannot be judged is unreadable, and never foreign or valid: %j', (content) => {
    expect(parseMark(`safemigrate: ${JSON.stringify(content)}`)).toBe('unreadable');
  });

  test.each([
    'safemigrate: ',
    'safemigrate: {',
    'safemigrate: {}{}',
    "safemigrate: '; DROP DATABASE app; --",
  ])('that is damaged is unreadable: %s', (text) => {
    expect(parseMark(text)).toBe('unreadable');
  });
});
