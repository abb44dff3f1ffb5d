import { expect, test } from 'vitest';
import { findHazards } from '../../../src/hazards/catalogue.ts';
import type { ChangedDefinition } from '../../../src/model/definition-kinds.ts';
import { NO_EFFECTS } from '../../../src/model/effect-facts.ts';
import type { SchemaChange } from '../../../src/model/report.ts';
import { facts, relation, schema, statement } from '../../helpers/facts.ts';

interface Given {
  readonly redefined?: readonly ChangedDefinition[];
  readonly sql?: string;
  readonly tag?: string;
  readonly changes?: SchemaChange[];
  readonly rollbackSql?: string;
}

const CODES = ['ACCESS_WIDENED', 'FUNCTION_OPENED', 'VIEW_BYPASSES_POLICIES'];

/** Severity, statement and message of each hazard of wider access. */
function found(given: Given) {
  return hazards(given).map(({ severity, statement, message }) => `${severity} ${statement}: ${message}`);
}

function hazards({ redefined = [], sql = '', tag = 'GRANT', changes = [], rollbackSql = '' }: Given) {
  return findHazards(
    facts({
      statements: [statement(1, { sql, tag })],
      schema: schema({ changes, rollbackSql }),
      catalogue: {
        relations: new Map(
          ['public.orders', 'public.goods'].map((name) => [name, relation(8192, 10)] as const),
        ),
        effects: { ...NO_EFFECTS, redefined },
      },
    }),
  ).filter(({ code }) => CODES.includes(code));
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
  const [hazard] = hazards({
    redefined: [{ ...past, before: null, after: 'SELECT for anon, SELECT for Web' }],
    changes: [made],
  });
  expect(hazard?.advice?.split('\n').at(-1)).toBe(fix);
});

test('a view past policies tells the roles that read, and those that write through it, if they could not before', () => {
  const told = (before: string | null, after: string) =>
    found({
      redefined: [{ kind: 'past policies', relation: 'public.v', name: 'orders', before, after }],
    });
  const view = 'warning null: the view public.v';
  expect(told(null, 'SELECT for a, SELECT for b, UPDATE for b')).toEqual([
    `${view} shows rows of orders past its row-level security to a, b, and lets b UPDATE them`,
  ]);
  expect(told('SELECT for a, SELECT for b', 'DELETE for a, INSERT for a, SELECT for a')).toEqual([
    `${view} lets a DELETE, INSERT rows of orders past its row-level security`,
  ]);
  expect(told('SELECT for a, SELECT for b', 'SELECT for a')).toEqual([]);
});

test('a new function with the rights of its owner is a notice, unless a GRANT names it', () => {
  const open = { kind: 'called without a login', relation: 'public.find', name: 'anon' } as const;
  const make = { does: 'create function', function: { schema: null, name: 'find' } } as const;
  const told = (before: string | null, after: string, ...more: readonly string[]) =>
    findHazards(
      facts({
        statements: [
          statement(1, { tag: 'CREATE FUNCTION', sql: 'CREATE FUNCTION find' }),
          ...more.map((sql, at) => statement(at + 2, { tag: sql.slice(0, sql.indexOf(' ')), sql })),
        ],
        parsed: new Map([[1, { actions: [make], effect: 'schema' }]]),
        catalogue: {
          searchPath: ['public'],
          effects: { ...NO_EFFECTS, redefined: [{ ...open, before, after }] },
        },
      }),
    )
      .filter(({ code }) => code === 'FUNCTION_OPENED')
      .map(({ severity, message, advice }) => [severity, message, advice.split('\n').at(-1)]);
  expect(told(null, 'integer, text')).toEqual([
    [
      'notice',
      'anon, the role of requests without a login, may call public.find(integer, text), which runs with the rights of its owner',
      'REVOKE EXECUTE ON FUNCTION public.find(integer, text) FROM PUBLIC, anon;',
    ],
  ]);
  expect(told(null, 'integer', 'GRANT EXECUTE ON FUNCTION find TO anon')).toEqual([]);
  expect(told(null, 'integer', 'GRANT EXECUTE ON FUNCTION find_all TO anon')).toHaveLength(1);
  expect(told('integer', 'integer\ntext')).toEqual([]);
});

test.each([
  ['web_anon in schema api', 'each table in schema api that maker', 'maker IN SCHEMA api REVOKE'],
  ['web_anon', 'each table that maker', 'maker REVOKE'],
])('later tables are told for %s', (name, words, fix) => {
  const later = { kind: 'anonymous later', relation: 'maker', name } as const;
  const [hazard] = hazards({ redefined: [{ ...later, before: null, after: 'SELECT' }] });
  expect(hazard).toMatchObject({
    severity: 'warning',
    message: `web_anon, the role of requests without a login, gets SELECT on ${words} makes from now on`,
  });
  expect(hazard?.advice).toContain(
    `ALTER DEFAULT PRIVILEGES FOR ROLE ${fix} SELECT ON TABLES FROM web_anon;`,
  );
});

test('a replaced view that shows columns past the privileges of a role is a notice if the role reads nothing of the table', () => {
  const past = { kind: 'past columns', relation: 'public.v', name: 'web' } as const;
  const told = (before: string, after: string, verb: SchemaChange['verb'] = 'alter') =>
    found({
      redefined: [{ ...past, before, after }],
      changes: [{ verb, kind: 'view', object: 'public.v', sql: '', dataLoss: false }],
    });
  const shows = (column: string) =>
    `null: the view public.v shows web public.${column}, which it may not read in the table`;
  expect(told('', 'public.orders.price, public.goods.code of nothing')).toEqual([
    `warning ${shows('orders.price')}`,
    `notice ${shows('goods.code')}`,
  ]);
  expect(told('public.orders.price', '')).toEqual([]);
  expect(told('', 'public.orders.price', 'revoke')).toEqual([]);
});

test('a function that writes as its owner is told if the command made or changed it', () => {
  const writes = 'SECURITY DEFINER that writes what a role which may call it may not write';
  const open = { kind: 'open function', relation: 'public.pay', name: 'integer' } as const;
  const made: SchemaChange = {
    verb: 'alter',
    kind: 'function',
    object: 'public.pay(integer)',
    sql: '',
    dataLoss: false,
  };
  const message =
    'warning null: every role may call public.pay(integer), which writes with the rights of its owner';
  expect(found({ redefined: [{ ...open, before: null, after: writes }], changes: [made] })).toEqual([
    message,
  ]);
  expect(found({ redefined: [{ ...open, before: null, after: writes }] })).toEqual([]);
  const both = `SECURITY DEFINER without a search_path, ${writes}`;
  expect(found({ redefined: [{ ...open, before: null, after: both }], changes: [made] })).toEqual([
    `${message.replace('writes', 'runs')} and the search_path of the caller`,
  ]);
  expect(found({ redefined: [{ ...open, before: both, after: writes }], changes: [made] })).toEqual([]);
});
