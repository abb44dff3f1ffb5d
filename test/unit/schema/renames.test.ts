import { expect, test } from 'vitest';
import type { CatalogueIdentity, Identified } from '../../../src/schema/identity.ts';
import { keptObjects } from '../../../src/schema/renames.ts';

function identity(
  ...objects: (Pick<Identified, 'key' | 'kind' | 'name'> & Partial<Identified>)[]
): CatalogueIdentity {
  const plain = { within: null, args: null, follows: null, index: null, partition: null, valid: true };
  return new Map(objects.map((object) => [object.key, { ...plain, ...object }]));
}

const schema = { key: 'pg_namespace:1', kind: 'schema', name: 'public' } as const;
const table = (oid: number, name: string) =>
  ({ key: `pg_class:${oid}`, kind: 'table', name, within: schema.key }) as const;

test('what kept its name has no step', () => {
  const same = identity(schema, table(2, 'a'));
  expect(keptObjects(same, same)).toEqual({ renames: [], steps: [] });
});

test('a new object in the way of an old name steps aside, within 63 bytes and apart from every other name', () => {
  const long = 'é'.repeat(31);
  const aside = `${'é'.repeat(28)}_new`;
  const before = identity(schema, table(2, long));
  const after = identity(schema, table(2, 'old'), table(3, long), table(4, aside));
  const { renames, steps } = keptObjects(before, after);
  expect(renames).toEqual([{ kind: 'table', from: `public."${long}"`, to: 'public.old' }]);
  expect(steps.map(({ undo }) => undo)).toEqual([
    `ALTER TABLE "public"."${long}" RENAME TO "${aside}2"`,
    `ALTER TABLE "public"."old" RENAME TO "${long}"`,
  ]);
});

test('names that went round in a circle are taken back through one that nobody has', () => {
  const before = identity(schema, table(2, 'a'), table(3, 'b'), table(4, 'c'));
  const after = identity(schema, table(2, 'b'), table(3, 'c'), table(4, 'a'));
  const { renames, steps } = keptObjects(before, after);
  expect(renames).toHaveLength(3);
  const tables = [...after].filter(([, { kind }]) => kind === 'table');
  const names = new Map(tables.map(([key, { name }]) => [name, key]));
  for (const { undo } of steps) {
    const [, , from = '', to = ''] = /"(.*)"\."(.*)" RENAME TO "(.*)"/.exec(undo) ?? [];
    expect(names.has(to), undo).toBe(false);
    names.set(to, names.get(from) ?? '');
    names.delete(from);
  }
  expect(Object.fromEntries(names)).toEqual({ a: 'pg_class:2', b: 'pg_class:3', c: 'pg_class:4' });
});

test('the steps back and forth are each other’s inverse', () => {
  const before = identity(schema, table(2, 'a'));
  const after = identity({ ...schema, name: 'shop' }, table(2, 'b'));
  expect(keptObjects(before, after).steps.map(({ undo, redo }) => [undo, redo])).toEqual([
    ['ALTER TABLE "shop"."b" RENAME TO "a"', 'ALTER TABLE "shop"."a" RENAME TO "b"'],
    ['ALTER SCHEMA "shop" RENAME TO "public"', 'ALTER SCHEMA "public" RENAME TO "shop"'],
  ]);
});
