import { describe, expect, test } from 'vitest';
import { findHazards } from '../../../src/hazards/catalogue.ts';
import { NO_EFFECTS } from '../../../src/model/effect-facts.ts';
import { NO_DEFINITIONS } from '../../../src/model/hazard-facts.ts';
import type { ProbeDifference } from '../../../src/model/probe-difference.ts';
import type { SchemaSection } from '../../../src/model/report.ts';
import type { StatementEffect } from '../../../src/model/statement-actions.ts';
import { facts, relation, schema, statement } from '../../helpers/facts.ts';

const INSERT: ProbeDifference = {
  kind: 'accepts less',
  relation: 'public.orders',
  reads: [],
  probe: 'INSERT of required columns alone',
  subject: null,
  sql: 'INSERT INTO public.orders DEFAULT VALUES',
  remedy: null,
  role: 'app',
  before: '1 row',
  after: 'null value in column "status" (SQLSTATE 23502)',
  sqlstate: '23502',
  constraint: null,
};

function found(
  probes: readonly ProbeDifference[],
  more: Partial<typeof NO_DEFINITIONS> = {},
  rows = 10,
  rollbackSql: string | null = null,
) {
  return findHazards(
    facts({
      schema: schema({ rollbackSql }),
      catalogue: {
        relations: new Map([['public.orders', relation(8192, rows)]]),
        definitions: { ...NO_DEFINITIONS, ...more },
        effects: { ...NO_EFFECTS, probes },
      },
    }),
  ).map(({ code, severity, message, advice }) => ({ code, severity, message, advice }));
}

const DEFAULT_DROPPED = {
  defaults: new Map([
    ['public.orders.status', { before: "'new'", after: null, notNull: true, generated: false }],
  ]),
};

test('a changed default is not proposed again if the type of its column changed, too', () => {
  const retyped = [{ object: 'public.orders.status', from: 'text', to: 'smallint' }];
  const advised = (after: string | null) => {
    const defaults = new Map([
      ['public.orders.status', { before: "'new'", after, notNull: true, generated: false }],
    ]);
    const advice = (more: Partial<typeof NO_DEFINITIONS>) =>
      found([], { defaults, ...more }).find(({ code }) => code === 'DEFAULT_CHANGED')?.advice;
    return [advice({}), advice({ retyped })];
  };
  const setting = 'ALTER TABLE public.orders ALTER COLUMN status SET DEFAULT';
  expect(advised(null)).toEqual([
    `Until all running code writes the column:\n${setting} 'new';`,
    `Until all running code writes the column, by a value of type smallint:\n${setting} …;`,
  ]);
  expect(advised('0')).toEqual([
    `Until all running code writes the column:\n${setting} 'new';`,
    'Make sure that the new default means the same in type smallint.',
  ]);
});

describe('a probe with another result', () => {
  test('is a warning with its SQL if no other hazard explains it', () => {
    expect(found([INSERT])).toEqual([
      {
        code: 'ACCEPTS_LESS',
        severity: 'warning',
        message: 'public.orders refuses an INSERT of required columns alone as app',
        advice: expect.stringContaining('INSERT INTO public.orders DEFAULT VALUES;'),
      },
    ]);
  });

  test('makes a warning of the hazard that explains it, if a role of an application has tried it or there are many rows', () => {
    const explained = (role: string | null, rows: number) =>
      found([{ ...INSERT, role }], DEFAULT_DROPPED, rows).map(({ code, severity }) => `${severity} ${code}`);
    expect(explained('app', 10)).toEqual(['warning DEFAULT_CHANGED']);
    expect(explained(null, 10)).toEqual(['notice DEFAULT_CHANGED']);
    expect(explained(null, 10_000)).toEqual(['warning DEFAULT_CHANGED']);
  });

  test('is told by the message of a new trigger, which says nothing of what the trigger does', () => {
    const statements = [statement(1, { tag: 'CREATE TRIGGER' })];
    const changes = [
      { verb: 'create', kind: 'trigger', object: 'public.orders.checks', sql: '', dataLoss: false } as const,
    ];
    const told = (probes: readonly ProbeDifference[]) =>
      findHazards(
        facts({
          statements,
          schema: schema({ changes }),
          catalogue: {
            relations: new Map([['public.orders', relation(8192, 10)]]),
            effects: { ...NO_EFFECTS, probes },
          },
        }),
      ).map(({ severity, message }) => [severity, message]);
    const trigger = 'creates the trigger checks: writes to public.orders run it from now on';
    expect(told([])).toEqual([['notice', trigger]]);
    expect(told([{ ...INSERT, sqlstate: '2F005' }])).toEqual([
      ['warning', `${trigger}, and an INSERT of required columns alone is no longer accepted`],
    ]);
  });

  test('names the statement that can have caused it, or the few that can', () => {
    const causeAfter = (effect: StatementEffect, second: Parameters<typeof statement>[1] = {}) => {
      const statements = [
        statement(1, { tag: 'ALTER TABLE', locks: [['public.orders', 'ACCESS EXCLUSIVE', 1]] }),
        statement(2, second),
      ];
      const of = (each: StatementEffect) => ({ actions: [], effect: each });
      const parsed = new Map([
        [1, of('schema')],
        [2, of(effect)],
      ]);
      const [first] = findHazards(
        facts({ statements, parsed, catalogue: { effects: { ...NO_EFFECTS, probes: [INSERT] } } }),
      ).filter(({ code }) => code === 'ACCEPTS_LESS');
      return [first?.statement, /one of the statements (.*)$/.exec(first?.evidence ?? '')?.[1]];
    };
    expect(causeAfter('schema', { locks: [['public.other', 'ACCESS EXCLUSIVE', 1]] })).toEqual([
      1,
      undefined,
    ]);
    expect(causeAfter('reads', { locks: [['public.orders', 'ACCESS SHARE', 1]] })).toEqual([1, undefined]);
    expect(causeAfter('rows', { locks: [['public.orders', 'ROW EXCLUSIVE', 1]] })).toEqual([null, '1, 2']);
    expect(causeAfter('schema')).toEqual([null, '1, 2']);
  });

  test('is explained by a dropped function only if the refusal names it', () => {
    const codesOf = (called: string) =>
      findHazards(
        facts({
          schema: schema({
            changes: [
              { verb: 'drop', kind: 'function', object: 'public.tax(numeric)', sql: '', dataLoss: false },
            ],
          }),
          catalogue: {
            effects: {
              ...NO_EFFECTS,
              probes: [
                { ...INSERT, after: `function ${called} does not exist (SQLSTATE 42883)`, sqlstate: '42883' },
              ],
            },
          },
        }),
      ).map(({ code }) => code);
    expect(codesOf('tax(numeric)')).toEqual(['OBJECT_DROPPED']);
    expect(codesOf('public.tax(numeric)')).toEqual(['OBJECT_DROPPED']);
    expect(codesOf('surtax(numeric)')).toEqual(expect.arrayContaining(['OBJECT_DROPPED', 'ACCEPTS_LESS']));
    expect(codesOf('md5(uuid)')).toEqual(expect.arrayContaining(['OBJECT_DROPPED', 'ACCEPTS_LESS']));
  });

  test('is explained by a dropped constraint only if ON CONFLICT needed this one', () => {
    const codesOf = (subject: string) =>
      findHazards(
        facts({
          schema: schema({
            changes: [
              {
                verb: 'drop',
                kind: 'constraint',
                object: 'public.orders.orders_code',
                sql: '',
                dataLoss: false,
              },
            ],
          }),
          catalogue: {
            relations: new Map([['public.orders', relation(8192, 10)]]),
            effects: { ...NO_EFFECTS, probes: [{ ...INSERT, subject, sqlstate: '42P10' }] },
          },
        }),
      ).map(({ code, severity }) => `${severity} ${code}`);
    expect(codesOf('orders_code')).toEqual(['warning CONSTRAINT_DROPPED']);
    expect(codesOf('orders_code_2')).toEqual(['warning ACCEPTS_LESS', 'notice CONSTRAINT_DROPPED']);
  });

  test('is explained by another table that is renamed only if the probe itself names it', () => {
    const codesOf = (sql: string) =>
      findHazards(
        facts({
          schema: schema({
            renames: [{ kind: 'table', from: 'public.customers', to: 'public.clients' }],
          }),
          catalogue: {
            relations: new Map([
              ['public.orders', relation(8192, 10)],
              ['public.clients', relation(8192, 10)],
            ]),
            renamed: new Map([['public.customers', 'public.clients']]),
            effects: {
              ...NO_EFFECTS,
              probes: [
                { ...INSERT, sql, after: 'relation "public.customers" does not exist', sqlstate: '42P01' },
              ],
            },
          },
        }),
      ).map(({ code }) => code);
    expect(codesOf('INSERT INTO "public"."orders" SELECT max(id) FROM "public"."customers"')).toEqual([
      'TABLE_RENAMED',
    ]);
    expect(codesOf('INSERT INTO "public"."orders" DEFAULT VALUES')).toContain('ACCEPTS_LESS');
  });

  test('is left to the constraint of another table that means something else', () => {
    const probe: ProbeDifference = {
      ...INSERT,
      kind: 'accepts more',
      probe: 'DELETE of a row',
      subject: 'first_fkey',
      sqlstate: '23503',
      constraint: 'lines_order_fkey',
    };
    const redefined = {
      kind: 'constraint' as const,
      relation: 'public.lines',
      name: 'lines_order_fkey',
      before: 'FOREIGN KEY (order_id) REFERENCES orders(id)',
      after: 'FOREIGN KEY (order_id) REFERENCES orders(id) ON DELETE CASCADE',
    };
    const codesWith = (...changed: (typeof redefined)[]) =>
      findHazards(
        facts({ catalogue: { effects: { ...NO_EFFECTS, probes: [probe], redefined: changed } } }),
      ).map(({ code }) => code);
    expect(codesWith(redefined)).toEqual(['CONSTRAINT_CHANGED']);
    expect(codesWith({ ...redefined, name: 'other' })).toContain('ACCEPTS_MORE');
  });

  test('is raised by the calls of running code that sends it', () => {
    const raised = (callsPerSecond: number | null) =>
      found([{ ...INSERT, callsPerSecond }]).map(({ severity }) => severity);
    expect(raised(2)).toEqual(['error']);
    expect(raised(null)).toEqual(['error']);
    expect(raised(0.0001)).toEqual(['warning']);
  });

  test('is reported once for each relation', () => {
    const others = [{ ...INSERT, probe: 'UPDATE of a row', sqlstate: 'P0001' }];
    expect(found([INSERT, ...others]).map(({ message }) => message)).toEqual([
      'public.orders refuses an INSERT of required columns alone, UPDATE of a row as app',
    ]);
  });

  test('is left to the sequence that explains it', () => {
    const behind: ProbeDifference = {
      ...INSERT,
      kind: 'sequence behind',
      probe: 'value of public.s',
      subject: 'id',
      sqlstate: null,
    };
    expect(found([behind, { ...INSERT, sqlstate: '23505' }]).map(({ code }) => code)).toEqual([
      'SEQUENCE_BEHIND',
    ]);
  });

  test('has the statement that makes it good as advice, or what was there before', () => {
    const behind: ProbeDifference = {
      ...INSERT,
      kind: 'sequence behind',
      remedy: "SELECT setval('public.s', (SELECT max(id) FROM public.orders))",
    };
    expect(found([behind])[0]?.advice).toBe(
      "At the end of the migration:\nSELECT setval('public.s', (SELECT max(id) FROM public.orders));",
    );
    const more: ProbeDifference = { ...INSERT, kind: 'accepts more', subject: 'orders_number_key' };
    const rollbackSql =
      'DROP INDEX "public"."orders_number_key";\nCREATE UNIQUE INDEX "orders_number_key"\n  ON "public"."orders" (number);\nALTER TABLE "public"."orders" DROP COLUMN "b";\n';
    expect(found([more], {}, 10, rollbackSql)[0]?.advice).toBe(
      'The definition before, if running code needs it:\nCREATE UNIQUE INDEX "orders_number_key" ON "public"."orders" (number);',
    );
    const identity = 'ALTER TABLE "public"."orders" ALTER COLUMN "id" ADD GENERATED BY DEFAULT AS IDENTITY';
    const made =
      'ALTER TABLE "public"."orders" DROP CONSTRAINT "c";\nALTER TABLE "public"."orders" DROP COLUMN "b"';
    expect(found([{ ...INSERT, subject: null }], {}, 10, `${made};\n${identity};\n`)[0]?.advice).toBe(
      `The definition before, if running code needs it:\n${identity};`,
    );
  });

  test('is a notice if only an index is too small for a value', () => {
    expect(found([{ ...INSERT, sqlstate: '54000', constraint: 'orders_note' }])).toMatchObject([
      { severity: 'notice' },
    ]);
  });

  test('is a notice if a new foreign key keeps a row, unless the key takes the place of another', () => {
    const change = (verb: 'create' | 'drop', name: string) => ({
      verb,
      kind: 'constraint' as const,
      object: `public.lines.${name}`,
      sql: '',
      dataLoss: false,
    });
    const severityAfter = (...changes: SchemaSection['changes']) =>
      findHazards(
        facts({
          schema: schema({ changes }),
          catalogue: {
            relations: new Map([['public.orders', relation(8192, 10)]]),
            effects: {
              ...NO_EFFECTS,
              probes: [
                { ...INSERT, probe: 'DELETE of a row', sqlstate: '23503', constraint: 'lines_order_fkey' },
              ],
            },
          },
        }),
      ).map(({ code, severity }) => `${severity} ${code}`);
    const made = change('create', 'lines_order_fkey');
    expect(severityAfter(made)).toEqual(['notice ACCEPTS_LESS']);
    expect(severityAfter(made, change('drop', 'lines_cascade'))).toEqual(['warning ACCEPTS_LESS']);
  });
});
