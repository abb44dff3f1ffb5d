import { describe, expect, test } from 'vitest';
import { isLeftOut } from '../../../src/clone/cluster/excluded.ts';
import { invalidRelations } from '../../../src/clone/private/post-start.ts';

describe('isLeftOut', () => {
  const kept = new Set(['1', '5', '16384']);

  test.each([
    ['base/16385', true],
    ['PG_18_202506291/16385', true],
    ['/srv/fast/PG_18_202506291/16385', true],
    ['base/16384', false],
    ['PG_18_202506291/16384', false],
    ['base/pgsql_tmp', false],
    ['global', false],
    ['pg_tblspc/16385', false],
    ['base', false],
  ])('the folder %s: %s', (folder, expected) => {
    expect(isLeftOut(folder, kept)).toBe(expected);
  });
});

describe('invalidRelations', () => {
  const line = (relation: string, what = 'does not exist') =>
    `2026-11-22 20:00:00 UTC [7] WARNING:  page 3 of relation ${relation} ${what}\n`;

  test('names relations of databases that were copied, and those that all databases share', () => {
    const log = [
      line('base/16384/2619'),
      line('base/16385/2619'),
      line('pg_tblspc/9000/PG_18_202506291/16384/7000', 'is uninitialized'),
      line('pg_tblspc/9000/PG_18_202506291/16385/7000'),
      line('global/1262'),
      'LOG:  redo starts at 0/2000028 of base/16384/1\n',
    ].join('');
    expect(invalidRelations(log, new Set(['16384']))).toEqual([
      'base/16384/2619',
      'pg_tblspc/9000/PG_18_202506291/16384/7000',
      'global/1262',
    ]);
  });
});
