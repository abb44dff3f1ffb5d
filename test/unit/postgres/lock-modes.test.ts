import { describe, expect, test } from 'vitest';
import { blocks, conflictsOf, LOCK_MODES, lockModeOf } from '../../../src/postgres/lock-modes.ts';

describe('lock modes', () => {
  test('conflict in both directions or not at all', () => {
    for (const a of LOCK_MODES)
      for (const b of LOCK_MODES)
        expect(conflictsOf(a).includes(b), `${a}, ${b}`).toBe(conflictsOf(b).includes(a));
  });

  test.each([
    ['ACCESS SHARE', ['DDL']],
    ['ROW EXCLUSIVE', ['DDL']],
    ['SHARE UPDATE EXCLUSIVE', ['vacuum', 'DDL']],
    ['SHARE', ['writes', 'vacuum', 'DDL']],
    ['SHARE ROW EXCLUSIVE', ['writes', 'vacuum', 'DDL']],
    ['EXCLUSIVE', ['row locks', 'writes', 'vacuum', 'DDL']],
    ['ACCESS EXCLUSIVE', ['reads', 'row locks', 'writes', 'vacuum', 'DDL']],
  ] as const)('%s blocks %j', (mode, expected) => {
    expect(blocks(mode)).toEqual(expected);
  });

  test('are known by the names of pg_locks', () => {
    expect(lockModeOf('AccessExclusiveLock')).toBe('ACCESS EXCLUSIVE');
    expect(lockModeOf('ShareUpdateExclusiveLock')).toBe('SHARE UPDATE EXCLUSIVE');
    expect(lockModeOf('ShareLock')).toBe('SHARE');
    expect(lockModeOf('SIReadLock')).toBeUndefined();
  });
});
