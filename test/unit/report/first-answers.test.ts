import { describe, expect, test } from 'vitest';
import { strongestLock } from '../../../src/hazards/held-locks.ts';
import type { Report } from '../../../src/model/report.ts';
import { verdictView } from '../../../src/report/sections/verdict-view.ts';
import { sampleReport, sampleReports } from '../../helpers/reports.ts';

function answer(question: string, report: Report): unknown {
  const facts = verdictView(report).blocks.flatMap((block) => (block.kind === 'facts' ? block.facts : []));
  return facts.find(([label]) => label === question)?.[1];
}

/** A report whose statement holds these locks. */
function holding(...locks: [relation: string, blocks: string[], heldMs: number | null][]): Report {
  const [statement] = sampleReports.rewrite?.statements ?? [];
  if (!statement) throw new Error('the sample has statements');
  return sampleReport({
    statements: [
      {
        ...statement,
        locks: locks.map(([relation, blocks, heldMs]) => ({
          relation,
          mode: `blocks ${blocks}`,
          acquiredBy: 'ALTER TABLE',
          heldMs,
          blocks,
        })),
      },
    ],
  });
}

describe('who waits', () => {
  test('the longest lock of each table is given, those that block reads first', () => {
    const report = holding(
      ['public.small', ['reads', 'writes'], 7],
      ['public.orders', ['reads', 'writes'], 4200],
      ['public.orders', ['writes'], 3000],
      ['public.items', ['writes'], 300],
    );
    expect(answer('Users', report)).toMatch(
      /^reads and writes wait: public\.orders for 4\.2 s, public\.small for 7\.0 ms; writes wait: public\.items for 300 ms/,
    );
  });

  test('writes that wait for longer than reads of the same table are given, too', () => {
    const report = holding(
      ['public.orders', ['reads', 'writes'], 8],
      ['public.orders', ['writes'], 1600],
      ['public.items', ['writes'], 1000],
      ['public.orders', ['writes'], 900],
    );
    expect(answer('Users', report)).toMatch(
      /^reads and writes wait: public\.orders for 8\.0 ms; writes wait: public\.orders for 1\.6 s, public\.items/,
    );
  });

  test('locks that block neither reads nor writes keep nobody waiting', () => {
    expect(answer('Users', holding(['public.orders', ['vacuum', 'DDL'], 4200]))).toBe(
      'no lock blocks reads or writes of a table',
    );
  });

  test('a table is named, and not its indexes as well', () => {
    const [statement] = sampleReports.rewrite?.statements ?? [];
    if (!statement) throw new Error('the sample has statements');
    const lock = {
      mode: 'ACCESS EXCLUSIVE',
      acquiredBy: 'ALTER TABLE',
      heldMs: 694,
      blocks: ['reads', 'writes'],
    };
    const locks = [
      { ...lock, relation: 'public.orders_pkey', indexOf: 'public.orders' },
      { ...lock, relation: 'public.orders' },
    ];
    const report = sampleReport({ statements: [{ ...statement, locks }] });
    expect(answer('Users', report)).toMatch(/^reads and writes wait: public\.orders for 694 ms(;|$)/);
    expect(strongestLock({ ...statement, locks })?.relation).toBe('public.orders');
  });

  test('without statements, or without their locks, it is not known', () => {
    expect(answer('Users', sampleReport({ statements: [] }))).toBe('not known: no locks were read');
    const report = holding();
    const unread = report.statements.map((statement) => ({ ...statement, locks: null }));
    expect(answer('Users', { ...report, statements: unread })).toBe('not known: no locks were read');
  });
});

const EMPTY: NonNullable<Report['data']> = {
  tables: [],
  unchangedTables: 0,
  written: [],
  lost: [],
  walBytes: null,
  sizeDeltaBytes: null,
};

/** A report whose schema comparison has these dropped columns, and nothing else. */
function withDropped(report: Report, columns: readonly string[]): Report {
  const { schema } = sampleReport();
  if (!schema) throw new Error('the sample has a schema comparison');
  const changes = columns.map((object) => ({
    verb: 'drop' as const,
    kind: 'column',
    object,
    sql: '',
    dataLoss: true,
  }));
  return { ...report, schema: { ...schema, changes } };
}

describe('what is lost', () => {
  const data = sampleReport().data as NonNullable<Report['data']>;
  const lost = {
    ...({ object: 'public.users.mail', kind: 'column', what: 'dropped' } as const),
    exact: true,
    rowsChanged: null,
  };

  test('losses are named with their amount', () => {
    const report = sampleReport({ data: { ...data, lost: [{ ...lost, rows: 10, rowsWithValue: 4 }] } });
    expect(answer('Data', report)).toBe('drops column public.users.mail: 4 of 10 rows had a value');
  });

  test('what held no value is no loss, and changed rows are counted', () => {
    const written = [{ relation: 'public.orders', inserted: 5, updated: 3, deleted: 1 }];
    const report = sampleReport({
      data: { ...data, written, lost: [{ ...lost, rows: 10, rowsWithValue: 0 }] },
    });
    expect(answer('Data', report)).toBe('nothing is lost; 4 rows updated or deleted');
  });

  test('on a dump without rows it is not known, whether something was dropped or not', () => {
    const passed = sampleReport({ hazards: [] });
    const data = { ...EMPTY, withoutRows: true as const };
    const target = { ...passed.target, origin: 'dump' as const };
    const verdict = { ...passed.verdict, pass: true, reasons: [], objections: [] };
    const report = { ...passed, target, verdict, data };
    expect(answer('Data', { ...report, schema: null })).not.toContain('nothing');
    expect(answer('Data', withDropped(report, []))).toBe('not known: no rows here');
    const unknown = { rows: 0, rowsWithValue: null, rowsChanged: null, exact: false };
    const lost = [
      { object: 'public.orders.note', kind: 'column' as const, what: 'dropped' as const, ...unknown },
    ];
    const dropping = withDropped({ ...report, data: { ...data, lost } }, ['public.orders.note']);
    expect(answer('Data', dropping)).toBe('drops column public.orders.note: not known, no rows here');
    expect(verdictView(dropping).summary).toBe(
      'the command succeeded on a restored dump. It makes 1 schema change. 1 of them may lose data.',
    );
  });

  test('a loss is never called none if data was not compared', () => {
    expect(answer('Data', sampleReport({ data: null }))).toBe('not compared');
  });
});

describe('what to do next', () => {
  test.each([
    ['passed', 'apply it with safemigrate apply'],
    [
      'rewrite',
      'Add a bigint column, fill it in batches, then swap the two columns in one short transaction.',
    ],
    ['target-changed', 'a person must look at the target now'],
    [
      'unreached',
      'read what the command itself says; if it reads a file, name that as {safemigrate:config FILE}',
    ],
    ['failed-command', 'fix the error above and rehearse again'],
    ['swapped', undefined],
    ['half-applied', undefined],
  ])('of %s: %s', (name, words) => {
    expect(answer('Next', sampleReports[name] ?? sampleReport())).toBe(words);
  });

  test('advice with statements says where they stand, and is not cut at its colon', () => {
    const hazard = sampleReports.rewrite?.hazards.find(({ severity }) => severity === 'error');
    if (!hazard || !sampleReports.rewrite) throw new Error('the sample has hazards');
    const advice =
      'Build it outside a transaction, and look for an INVALID index:\nCREATE INDEX CONCURRENTLY i ON t (x);';
    const report = { ...sampleReports.rewrite, hazards: [{ ...hazard, advice }] };
    expect(answer('Next', report)).toBe(
      `Build it outside a transaction, and look for an INVALID index: see the statements at ${hazard.code}`,
    );
  });

  test('a dump is not applied to', () => {
    expect(answer('Next', sampleReport({ target: { origin: 'dump' } }))).toBe('deploy it');
  });
});
