import { expect, test } from 'vitest';
import { readOrphans } from '../../../src/observe/orphans.ts';
import { scratch } from '../../helpers/scratch.ts';

test('rows without a parent are counted whichever side of the key was written', async () => {
  const { session, drop } = await scratch(
    18,
    `CREATE TABLE parents (id int PRIMARY KEY);
     CREATE TABLE children (id int PRIMARY KEY, parent int REFERENCES parents);
     INSERT INTO parents VALUES (1), (2);
     INSERT INTO children VALUES (1, 1), (2, 1), (3, 2), (4, NULL);
     SET session_replication_role = replica; DELETE FROM parents WHERE id = 1`,
  );
  try {
    const orphans = [
      {
        relation: 'public.children',
        constraint: 'children_parent_fkey',
        references: 'public.parents',
        rows: 2,
      },
    ];
    expect(await readOrphans(session, ['public.parents'])).toEqual(orphans);
    expect(await readOrphans(session, ['public.children'])).toEqual(orphans);
    expect(await readOrphans(session, ['public.others'])).toEqual([]);
  } finally {
    await drop();
  }
});
