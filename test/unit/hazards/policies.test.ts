import { expect, test } from 'vitest';
import { findHazards } from '../../../src/hazards/catalogue.ts';
import type { ChangedDefinition } from '../../../src/model/definition-kinds.ts';
import { NO_EFFECTS } from '../../../src/model/effect-facts.ts';
import type { SchemaChange } from '../../../src/model/report.ts';
import { facts, relation, schema } from '../../helpers/facts.ts';

const WHOLE = 'the policy public.orders.own';

/** The POLICY_CHANGED of one policy, by its definitions as the catalogue has them. */
function told(
  verb: 'create' | 'alter',
  { before = null, after }: Partial<Pick<ChangedDefinition, 'before'>> & { after: string },
  sql = '',
) {
  const change: SchemaChange = { verb, kind: 'policy', object: 'public.orders.own', sql, dataLoss: false };
  const policy = { kind: 'policy', relation: 'public.orders', name: 'own', before, after } as const;
  return findHazards(
    facts({
      schema: schema({ changes: [change], rollbackSql: '' }),
      catalogue: {
        relations: new Map([['public.orders', relation(8192, 10)]]),
        effects: { ...NO_EFFECTS, redefined: [policy] },
      },
    }),
  )
    .filter(({ code }) => code === 'POLICY_CHANGED')
    .map(({ severity, message }) => `${severity}: ${message}`);
}

test.each([
  ['*; asked; asked; web', 'keeps rows from web'],
  ['r; some; some; web, Sales', 'keeps rows from web, "Sales"'],
  ['w; some; all; PUBLIC', 'keeps all roles from updating rows'],
  ['d; looked up; looked up; web', 'keeps web from deleting rows'],
  ['a; ; asked; web', 'refuses rows of web'],
  ['*; all; some; web', 'refuses rows of web'],
])('a new restrictive policy with %s is told by what it takes away', (definition, words) => {
  expect(told('create', { after: `restrictive; ${definition}` }, 'CREATE POLICY own AS RESTRICTIVE')).toEqual(
    [
      `notice: ${WHOLE} is created, and ${words} that other policies allow: restrictive policies are combined with AND`,
    ],
  );
});

test.each([
  'restrictive; *; all; all; web',
  'restrictive; r; all; all; web',
  'permissive; *; asked; asked; web',
])('a new policy with %s takes nothing away', (after) => {
  expect(told('create', { after })).toEqual([`notice: ${WHOLE} is created`]);
});

test.each([
  [
    '*; asked; asked; web',
    '*; all; all; web',
    'opens rows to its roles that it kept from them: its condition is true',
  ],
  [
    '*; none; none; web',
    '*; all; none; web',
    'opens rows to its roles that it kept from them: its condition is true',
  ],
  [
    'r; asked; asked; web',
    'r; some; some; web',
    'opens rows to its roles that it kept from them: its condition no longer asks for the user or session',
  ],
  [
    'a; ; asked; web',
    'a; ; all; web',
    'lets its roles write rows that it refused: its condition for new rows is true',
  ],
  [
    '*; all; all; web',
    '*; all; all; PUBLIC',
    'is for PUBLIC now: every role of the server, with a condition that is true',
  ],
])('a policy with %s that becomes %s is a warning', (was, is, words) => {
  expect(told('alter', { before: `permissive; ${was}`, after: `permissive; ${is}` })).toEqual([
    `warning: ${WHOLE} is changed, and ${words}`,
  ]);
});

test.each([
  ['*; all; all; web', '*; asked; asked; web'],
  ['*; looked up; looked up; web', '*; some; some; web'],
  ['*; asked; asked; web', '*; looked up; looked up; web'],
  ['*; none; none; web', '*; some; some; web'],
  ['*; all; all; PUBLIC', '*; all; all; web'],
  ['*; asked; asked; web', '*; asked; asked; PUBLIC'],
])('a policy with %s that becomes %s is only changed', (was, is) => {
  expect(told('alter', { before: `permissive; ${was}`, after: `permissive; ${is}` })).toEqual([
    `notice: ${WHOLE} is changed`,
  ]);
});
