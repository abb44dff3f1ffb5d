import { expect, test } from 'vitest';
import { lastNaming } from '../../../src/hazards/explained-probes.ts';
import { HazardContext } from '../../../src/hazards/hazard-context.ts';
import type { LockMode } from '../../../src/postgres/lock-modes.ts';
import { facts, statement } from '../../helpers/facts.ts';

type Ran = string | readonly [sql: string, lockedRelation: string];

function naming(object: string, ...ran: readonly Ran[]) {
  const statements = ran.map((each, at) => {
    const [sql, locked] = typeof each === 'string' ? [each] : each;
    const locks: [string, LockMode, number][] = locked === undefined ? [] : [[locked, 'ACCESS EXCLUSIVE', 1]];
    return statement(at + 1, { sql, locks });
  });
  return lastNaming(new HazardContext(facts({ statements })), object);
}

test('an object is named last by the last statement that has its name and not a longer one', () => {
  expect(naming('public.codes', 'CREATE VIEW codes', 'GRANT SELECT ON codes', 'DROP VIEW codes_old')).toBe(2);
  expect(naming('public.codes', 'CREATE VIEW other')).toBeNull();
  expect(naming('public.t.c', 'ALTER TABLE other.t DROP CONSTRAINT c')).toBe(1);
});

test('a statement that means an object of the same name in another schema does not name it', () => {
  expect(naming('public.codes', 'CREATE VIEW codes', 'CREATE VIEW app.codes')).toBe(1);
  expect(naming('public.codes', 'GRANT SELECT ON "App"."codes"')).toBeNull();
  expect(naming('app.codes', 'CREATE VIEW codes', 'CREATE VIEW APP . codes')).toBe(2);
  expect(naming('app.codes', 'CREATE VIEW codes')).toBeNull();
  expect(naming('app.codes', ['CREATE VIEW codes', 'app.codes'], ['CREATE VIEW codes', 'public.codes'])).toBe(
    1,
  );
});

test('a statement that locks the object is surer than one that only has its name', () => {
  expect(naming('app.codes', ['CREATE VIEW codes', 'app.codes'], 'GRANT SELECT ON codes')).toBe(1);
  const alter = 'ALTER TABLE t DROP CONSTRAINT c';
  expect(naming('app.t.c', [alter, 'app.t'], [alter, 'public.t'])).toBe(1);
});
