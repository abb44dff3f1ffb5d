import { expect, test } from 'vitest';
import { findHazards } from '../../../src/hazards/catalogue.ts';
import { type ChangedDefinition, NO_EFFECTS } from '../../../src/model/effect-facts.ts';
import type { SchemaChange } from '../../../src/model/report.ts';
import { facts, relation, statement } from '../../helpers/facts.ts';

const NO_SCHEMA = { before: 'a', after: 'b', renames: [], unmodeled: [], rollbackLoses: [], leftovers: [] };

interface Given {
  readonly redefined?: readonly ChangedDefinition[];
  readonly sql?: string;
  readonly tag?: string;
  readonly changes?: SchemaChange[];
  readonly rollbackSql?: string;
}

/** Severity, statement and message of each ACCESS_WIDENED. */
function found(given: Given) {
  return hazards(given).map(({ severity, statement, message }) => `${severity} ${statement}: ${message}`);
}

function hazards({ redefined = [], sql = '', tag = 'GRANT', changes = [], rollbackSql = '' }: Given) {
  return findHazards(
    facts({
      statements: [statement(1, { sql, tag })],
      schema: { ...NO_SCHEMA, changes, rollbackSql },
      catalogue: {
        relations: new Map(
          ['public.orders', 'public.goods'].map((name) => [name, relation(8192, 10)] as const),
        ),
        effects: { ...NO_EFFECTS, redefined },
      },
    }),
  ).filter(({ code }) => code === 'ACCESS_WIDENED');
}

test('a privilege that PUBLIC loses widens nothing', () => {
  const open = { kind: 'open', relation: 'public.orders', name: '' } as const;
  expect(found({ redefined: [{ ...open, before: 'INSERT, SELECT', after: 'SELECT' }] })).toEqual([]);
  expect(found({ redefined: [{ ...open, before: 'SELECT', after: 'INSERT, SELECT' }] })).toEqual([
    'warning null: PUBLIC may INSERT on public.orders: every role of the server',
  ]);
});

test('GRANT … ON ALL TABLES tells the privileges that the role did not have', () => {
  const grant = (table: string, privileges: string): SchemaChange => ({
    verb: 'grant',
    kind: 'table',
    object: `public.${table}`,
    sql: `GRANT ${privileges} ON TABLE "public"."${table}" TO "reader"`,
    dataLoss: false,
  });
  const changes = [grant('orders', 'INSERT, SELECT'), grant('goods', 'SELECT')];
  const rollbackSql = 'GRANT SELECT ON TABLE "public"."orders" TO "reader"';
  const sql = 'GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader';
  expect(
    found({ changes, sql, rollbackSql: `${rollbackSql};\n${rollbackSql.replace('SELECT', 'INSERT')}` }),
  ).toEqual(['notice 1: reader gets SELECT on 1 table or view that the GRANT does not name: public.goods']);
  expect(found({ changes, sql, rollbackSql })).toEqual([
    'notice 1: reader gets INSERT, SELECT on 2 tables and views that the GRANT does not name: public.orders, public.goods',
  ]);
  expect(found({ changes, sql: 'GRANT SELECT ON goods, orders TO reader' })).toEqual([]);
});

test('default privileges for PUBLIC are those of the only ALTER DEFAULT PRIVILEGES, or of the one that names the role', () => {
  const later = {
    kind: 'open later',
    relation: 'maker',
    name: 'table',
    before: null,
    after: 'SELECT',
  } as const;
  const given = { redefined: [later], tag: 'ALTER DEFAULT PRIVILEGES' };
  const message = 'PUBLIC gets SELECT on each table that maker makes from now on: every role of the server';
  expect(found({ ...given, sql: 'ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC' })).toEqual([
    `warning 1: ${message}`,
  ]);
  expect(found({ ...given, tag: 'GRANT' })).toEqual([`warning null: ${message}`]);
});

test('a role of requests without a login may be meant to read a table that is named', () => {
  const told = (before: string | null, after: string, sql: string) =>
    found({
      redefined: [{ kind: 'anonymous', relation: 'public.orders', name: 'anon', before, after }],
      sql,
    });
  const message = (privileges: string) =>
    `anon, the role of requests without a login, may ${privileges} on public.orders, all rows of it`;
  expect(told(null, 'SELECT', 'GRANT SELECT ON orders TO anon')).toEqual([`notice 1: ${message('SELECT')}`]);
  expect(told(null, 'SELECT', 'GRANT SELECT ON ALL TABLES IN SCHEMA public TO anon')).toEqual([
    `warning null: ${message('SELECT')}`,
  ]);
  expect(told('SELECT', 'INSERT, SELECT', 'GRANT INSERT ON orders TO anon')).toEqual([
    `warning 1: ${message('INSERT')}`,
  ]);
  expect(told('INSERT, SELECT', 'SELECT', 'REVOKE INSERT ON orders FROM anon')).toEqual([]);
});

test('policies for requests without a login do nothing before row-level security is enabled', () => {
  const open = { kind: 'anonymous', relation: 'public.orders', name: 'anon' } as const;
  const [hazard] = hazards({ redefined: [{ ...open, before: null, after: 'SELECT' }] });
  expect(hazard?.advice).toMatch(
    /^Enable row-level security\b.*\nREVOKE SELECT ON public\.orders FROM anon;$/,
  );
});

test('a table that a role of requests without a login gets is told once', () => {
  const anonymous = { kind: 'anonymous', relation: 'public.orders', name: 'anon', before: null } as const;
  const changes = ['orders', 'goods'].map(
    (table): SchemaChange => ({
      verb: 'grant',
      kind: 'table',
      object: `public.${table}`,
      sql: `GRANT SELECT ON TABLE "public"."${table}" TO "anon"`,
      dataLoss: false,
    }),
  );
  const sql = 'GRANT SELECT ON ALL TABLES IN SCHEMA public TO anon';
  expect(found({ redefined: [{ ...anonymous, after: 'SELECT' }], changes, sql })).toEqual([
    expect.stringMatching(/^warning .* on public\.orders, all rows of it$/),
    'notice 1: anon gets SELECT on 1 table or view that the GRANT does not name: public.goods',
  ]);
});

test.each([
  ['materialized view', 'REVOKE SELECT ON public.v FROM anon, "Web";'],
  ['view', 'ALTER VIEW public.v SET (security_invoker = true);'],
])('a %s past policies gets a fix that the server accepts', (kind, fix) => {
  const past = { kind: 'past policies', relation: 'public.v', name: 'orders' } as const;
  const made: SchemaChange = { verb: 'create', kind, object: 'public.v', sql: '', dataLoss: false };
  const [hazard] = hazards({ redefined: [{ ...past, before: null, after: 'anon, Web' }], changes: [made] });
  expect(hazard?.advice?.split('\n').at(-1)).toBe(fix);
});
