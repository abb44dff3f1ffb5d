import { describe, expect, test } from 'vitest';
import type { SchemaChange, SchemaSection } from '../../../src/model/report.ts';
import { goneNames } from '../../../src/observe/effects/broken-functions.ts';
import { changedDefinitions, type Definitions } from '../../../src/observe/effects/changed-definitions.ts';
import { mayLackStatistics } from '../../../src/observe/effects/missing-statistics.ts';
import { expressionsOf } from '../../../src/observe/effects/plpgsql-expressions.ts';
import { subscriberChanges } from '../../../src/observe/effects/read-effects.ts';
import { schema } from '../../helpers/facts.ts';

const change = (line: string, sql = ''): SchemaChange => {
  const [verb, kind = '', object = ''] = line.split(' | ');
  return { verb: verb as SchemaChange['verb'], kind, object, sql, dataLoss: false };
};

const section = (changes: SchemaChange[], renames: SchemaSection['renames'] = []) =>
  schema({ changes, renames });

describe('what the changes suggest to ask for', () => {
  test('names are gone if nothing of that name was made again', () => {
    const gone = goneNames(
      section(
        [
          change('drop | table | public.orders'),
          change('drop | view | public."Open orders"'),
          change('drop | view | public.again'),
          change('create | view | public.again'),
          change('drop | function | app.f(integer, "Mood")'),
        ],
        [{ kind: 'column', from: 'public.stock.amount', to: 'public.stock.number' }],
      ),
    );
    expect(gone).toEqual({
      relations: [
        { within: 'public', name: 'orders' },
        { within: 'public', name: 'Open orders' },
      ],
      columns: [{ within: 'stock', name: 'amount' }],
      functions: [{ within: 'app', name: 'f' }],
      types: [
        { within: 'public', name: 'orders' },
        { within: 'public', name: 'Open orders' },
      ],
    });
  });

  test('columns of another type, stored values and expressions may lack statistics', () => {
    expect(
      mayLackStatistics(
        section([
          change('alter | column | public.a.x', 'ALTER TABLE "public"."a" ALTER COLUMN "x" TYPE text'),
          change('create | column | public.a.y', 'ALTER TABLE "public"."a" ADD COLUMN "y" integer'),
          change('create | column | public.a.z', 'ALTER TABLE "public"."a" ADD COLUMN "z" integer DEFAULT 1'),
          change('create | index | public.i', 'CREATE INDEX i ON public.a USING btree (lower(x))'),
          change('create | index | public.j', 'CREATE INDEX j ON public.a USING btree (x)'),
        ]),
      ),
    ).toEqual({ columns: ['public.a.x', 'public.a.z'], indexes: ['public.i'] });
    expect(mayLackStatistics(section([change('drop | column | public.a.x')]))).toBeNull();
  });

  test('what a subscriber must change as well, but not of a table that it cannot have yet', () => {
    const changes = [
      change('create | table | public.fresh'),
      change('create | column | public.fresh.x'),
      change('create | column | public.a.y'),
      change('drop | column | public.a.z'),
    ];
    expect(
      subscriberChanges(section(changes, [{ kind: 'table', from: 'public.b', to: 'public.c' }])),
    ).toEqual([
      { what: 'column added', relation: 'public.a', column: 'y' },
      { what: 'table renamed', relation: 'public.c', column: null },
    ]);
  });
});

describe('the queries of a function in PL/pgSQL', () => {
  test('are read with its variables', async () => {
    const body = await expressionsOf(`CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$
      DECLARE sum numeric; customer bigint; one orders%ROWTYPE; any_row record;
      BEGIN
        SELECT total INTO sum FROM orders WHERE id = customer;
        IF sum > 5 THEN new.total := old.total + 1; END IF;
        RETURN new;
      END $$`);
    expect(body?.variables).toEqual(
      expect.arrayContaining([
        { name: 'sum', type: 'numeric' },
        { name: 'one', type: 'orders' },
        { name: 'any_row', type: null },
        { name: 'new', type: null },
      ]),
    );
    expect(body?.expressions.map(({ sql }) => sql.replace(/\s+/g, ' ').trim())).toEqual([
      'SELECT total FROM orders WHERE id = customer',
      'SELECT sum > 5',
      'SELECT old.total + 1',
      'SELECT new.total',
    ]);
  });

  test('are told apart from those whose rows it returns', async () => {
    const body = await expressionsOf(`CREATE FUNCTION f() RETURNS SETOF orders LANGUAGE plpgsql AS $$
      BEGIN PERFORM g(); RETURN QUERY SELECT * FROM orders; END $$`);
    expect(body?.expressions).toEqual([
      { sql: expect.stringContaining('g()'), isReturned: false },
      { sql: 'SELECT * FROM orders', isReturned: true },
    ]);
  });

  test('are none of a text that the parser does not understand', async () => {
    expect(
      await expressionsOf('CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $$ BEGIN oops $$'),
    ).toBeNull();
  });
});

describe('definitions that changed under their name', () => {
  const definitions = (
    ...list: [kind: 'constraint' | 'generated' | 'open', relation: string, name: string, text: string][]
  ) =>
    new Map(
      list.map(([kind, relation, name, text]) => [
        `${kind} ${relation} ${name}`,
        { kind, relation, name, text },
      ]),
    ) satisfies Definitions;
  const key = (text: string) => definitions(['constraint', 'public.lines', 'fk', text]);
  const named = (before: Definitions, after: Definitions, ...given: Parameters<typeof section>) =>
    changedDefinitions(before, after, section(...given)).map(
      ({ kind, relation, name }) => `${kind} ${relation} ${name}`,
    );
  const renamed = { kind: 'table', from: 'public.order', to: 'public.sales' };

  test('are not those in which a table or column has its new name', () => {
    const before = key('FOREIGN KEY (a) REFERENCES public."order"(id)');
    expect(named(before, key('FOREIGN KEY (a) REFERENCES public.sales(id)'), [], [renamed])).toEqual([]);
    const column = { kind: 'column', from: 'public.order.id', to: 'public.sales.number' };
    const both = key('FOREIGN KEY (a) REFERENCES public.sales(number)');
    expect(named(before, both, [], [renamed, column])).toEqual([]);
    const cascading = key('FOREIGN KEY (a) REFERENCES public.sales(id) ON DELETE CASCADE');
    expect(named(before, cascading, [], [renamed])).toEqual(['constraint public.lines fk']);
  });

  test('are those of a table whose old name another one has taken', () => {
    const before = key('FOREIGN KEY (a) REFERENCES public."order"(id)');
    const after = key('FOREIGN KEY (a) REFERENCES public.sales(id)');
    const changed = ['constraint public.lines fk'];
    expect(named(before, after, [change('create | table | public.order')], [renamed])).toEqual(changed);
    const swapped = { kind: 'table', from: 'public.order_new', to: 'public.order' };
    expect(named(before, after, [], [renamed, swapped])).toEqual(changed);
  });

  test('are neither gone nor new with a new name of their table or column', () => {
    const before = definitions(
      ['generated', 'public.order', 'total', 'a + b'],
      ['open', 'public.order', '', 'SELECT'],
    );
    const after = definitions(
      ['generated', 'public.sales', 'sum', 'a + b'],
      ['open', 'public.sales', '', 'SELECT'],
    );
    const column = { kind: 'column', from: 'public.order.total', to: 'public.sales.sum' };
    expect(named(before, after, [], [renamed, column])).toEqual([]);
    expect(named(before, new Map(), [], [renamed])).toEqual(['generated public.sales total']);
  });

  test('are none in a schema that has a new name', () => {
    const before = definitions(
      ['generated', 'portal.order', 'total', 'a'],
      ['open', 'portal.v', '', 'SELECT'],
    );
    const after = definitions(['generated', 'shop.order', 'total', 'a'], ['open', 'shop.v', '', 'SELECT']);
    const schema = { kind: 'schema', from: 'portal', to: 'shop' };
    expect(named(before, after, [], [schema])).toEqual([]);
    expect(named(before, after, [])).toEqual(['open shop.v ', 'generated portal.order total']);
  });
});
