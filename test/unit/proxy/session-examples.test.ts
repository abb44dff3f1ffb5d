import { serialize } from 'pg-protocol';
import { beforeAll, describe, expect, test } from 'vitest';
import { encodeMessage, int32, query } from '../../../src/postgres/protocol/messages.ts';
import { parseText } from '../../../src/postgres/sql/parse.ts';
import type { Gate, Observe, Observed } from '../../../src/proxy/observed.ts';
import { REFUSAL, REFUSED_SQL } from '../../helpers/model/model-server.ts';
import { type Lost, ModelSession } from '../../helpers/model/model-session.ts';

beforeAll(async () => void (await parseText(Buffer.from('select 1'))));

const GATE: Gate = { before: ({ sql }) => (sql === REFUSED_SQL ? REFUSAL : 'run') };
const GATE_THAT_RETRIES: Gate = { ...GATE, after: async () => 'deliver' };
const run = (
  steps: readonly Buffer[],
  observe: Observe,
  { lost = 'nobody' as Lost, choices = [] as readonly number[], gate = GATE } = {},
) =>
  new ModelSession({
    script: Buffer.concat([...steps, serialize.sync(), serialize.end()]),
    observe,
    gate,
    choices,
    lost,
  }).run();
const parse = (text: string, name = '') => serialize.parse({ name, text });
const execute = (statement = '') => Buffer.concat([serialize.bind({ statement }), serialize.execute({})]);
const prepared = (text: string) => Buffer.concat([parse(text), execute()]);
const sync = serialize.sync();
const close = serialize.close({ type: 'S', name: 'n' });
const call = encodeMessage(0x46, int32(1), Buffer.from([0, 0, 0, 0, 0, 0]));

/** The types of the messages that the client gets. */
function typesOf(bytes: Buffer): string {
  let types = '';
  for (let at = 0; at < bytes.length; at += bytes.readUInt32BE(at + 1) + 1)
    types += String.fromCharCode(bytes[at] ?? 0);
  return types;
}

function outcomesOf(events: readonly Observed[]): [string, string | null][] {
  return events.flatMap((event) =>
    event.type === 'end'
      ? [[event.statement.sql, event.outcome.tag ?? event.outcome.error?.get('C') ?? null]]
      : [],
  );
}

function locksOf(events: readonly Observed[], sql: string): string[] {
  return events.flatMap((event) =>
    event.type === 'locks' && event.statements.some((statement) => statement.sql === sql)
      ? (event.locks ?? []).map(({ mode }) => mode)
      : [],
  );
}

// Each was found by the properties of sessions.
describe('a session of the proxy', () => {
  test.each(['exact', 'sampled'] as const)(
    'does not wait for the answer to what the server skips up to a Sync (%s)',
    async (observe) => {
      const failed = await run([prepared('select 1/0'), query('select 1'), query('select 1'), call], observe);
      expect(typesOf(failed.received)).toBe('12EZ');
      const succeeded = await run([prepared('select 1'), call], observe);
      expect(typesOf(succeeded.received)).toBe('12DDDCVZZ');
    },
  );

  test('refuses a statement whose name the server has not given to another one', async () => {
    const taken = [parse(REFUSED_SQL, 'n'), parse('select 1', 'n'), sync, execute('n')];
    const skipped = [parse(REFUSED_SQL), prepared('select 1/0'), parse('select 1'), sync];
    const closed = [parse(REFUSED_SQL, 'n'), parse('selec'), close, sync, execute('n')];
    for (const steps of [taken, [...skipped, execute()], closed]) {
      const { server } = await run(steps, 'exact', { choices: [0, 4, 8, 12, 16, 20, 24, 28] });
      expect(server.ran.filter(({ sql, tag }) => sql === REFUSED_SQL && tag !== null)).toEqual([]);
    }
  });

  test.each([
    ['sampled', GATE],
    ['off', GATE],
    ['sampled', GATE_THAT_RETRIES],
  ] as const)(
    'refuses a statement behind a Sync whose answer it does not have (%s)',
    async (observe, gate) => {
      const taken = [parse(REFUSED_SQL, 'n'), parse('select 1', 'n'), sync, execute('n')];
      const answered = [
        parse(REFUSED_SQL, 'n'),
        sync,
        parse('select 1', 'n'),
        execute('n'),
        sync,
        execute('n'),
      ];
      const skipped = [execute('no'), close, sync, parse(REFUSED_SQL, 'n'), sync, prepared('selec'), sync];
      for (const steps of [taken, answered, [...skipped, execute('n')]]) {
        const { server } = await run(steps, observe, { gate });
        expect(server.ran.filter(({ sql, tag }) => sql === REFUSED_SQL && tag !== null)).toEqual([]);
      }
    },
  );

  test('prepares a statement that may be sent again although the gate refuses it', async () => {
    const steps = [parse(REFUSED_SQL, 'n'), execute('n'), sync, parse('select 1', 'n'), sync];
    const { received } = await run(steps, 'sampled', { gate: GATE_THAT_RETRIES });
    expect(typesOf(received)).toBe('12EZEZZ');
  });

  test('sends the data of a COPY in its order, if the client sends it ahead of a Sync', async () => {
    const copy = [prepared('copy t from stdin'), encodeMessage(0x64, 'row\n'), serialize.copyDone(), sync];
    const { received } = await run(copy, 'sampled', { gate: GATE_THAT_RETRIES, choices: [30, 23] });
    expect(typesOf(received)).toBe('12GCZZ');
  });

  test('tells of each execution of a portal that has ended', async () => {
    const { events } = await run([prepared('select 1'), serialize.execute({})], 'sampled');
    expect(outcomesOf(events)).toEqual([
      ['select 1', 'SELECT 3'],
      ['select 1', 'SELECT 0'],
    ]);
  });

  test('refuses what comes behind the data of a COPY that a client has sent ahead', async () => {
    const copy = Buffer.concat([
      query('copy t from stdin; savepoint s'),
      encodeMessage(0x64, 'row\n'),
      serialize.copyDone(),
    ]);
    for (const choices of [[], [30, 23, 4, 18], [4, 4, 8, 8]]) {
      const { server } = await run([copy, prepared(REFUSED_SQL)], 'exact', { choices });
      expect(server.ran.map(({ sql, tag }) => [sql, tag]).slice(2)).not.toContainEqual([
        REFUSED_SQL,
        'SELECT 3',
      ]);
    }
  });

  test('tells statements apart that a client sends without waiting for the end of the transaction before', async () => {
    const { events } = await run(
      [query('select 1'), prepared('select 1/0'), sync, prepared('create table a ()')],
      'sampled',
    );
    expect(outcomesOf(events)).toEqual([
      ['select 1', 'SELECT 3'],
      ['select 1/0', '22012'],
      ['create table a ()', 'CREATE TABLE'],
    ]);
    const ends = events.flatMap((event) => (event.type === 'transaction-end' ? [event.outcome] : []));
    expect(ends).toEqual(['committed', 'rolled back', 'committed']);
  });

  test('names the statement whose Parse the server has refused', async () => {
    const { events } = await run(
      [parse('select 1', 'n'), parse('select 1', 'n'), prepared('copy t to stdout')],
      'exact',
    );
    expect(outcomesOf(events)).toEqual([['select 1', '42P05']]);
  });

  test.each([[[]], [[0, 4, 8, 12, 16, 20, 24, 28]]])(
    'reports the locks of a statement once that was suspended when the session ended (%j)',
    async (choices) => {
      const suspended = Buffer.concat([serialize.bind({}), serialize.execute({ rows: 1 })]);
      const { events } = await run([parse('select 1'), suspended, prepared('begin')], 'exact', { choices });
      const reported = events.flatMap((event) => (event.type === 'locks' ? event.statements : []));
      expect(reported.map(({ sql }) => sql).sort()).toEqual(['begin', 'select 1']);
    },
  );

  test('takes a Parse behind an Execute for what comes then, not for what is executed', async () => {
    const steps = [prepared('select 1'), parse('insert into t values (1)')];
    const { events } = await run(steps, 'sampled', { gate: GATE_THAT_RETRIES });
    expect(outcomesOf(events)).toEqual([['select 1', 'SELECT 3']]);
  });

  test('begins no statement once the server has gone', async () => {
    const { events, ended } = await run([prepared('select 1')], 'exact', { lost: 'server', choices: [44] });
    expect(ended).toBe(true);
    const count = (type: Observed['type']) => events.filter((event) => event.type === type).length;
    expect(count('end')).toBe(count('begin'));
    expect(count('transaction-end')).toBeLessThanOrEqual(count('begin'));
    expect(count('transaction-end') > 0).toBe(count('begin') > 0);
  });

  test.each([
    ['a text that went whole', [query('select 1; begin')]],
    ['a repetition', [query('insert into t values (1)'), prepared('insert into t values (2)')]],
  ])('does not take locks of %s for those of the next statement', async (_what, before) => {
    const { events } = await run([...before, prepared('alter table a add c int')], 'exact');
    expect(locksOf(events, 'alter table a add c int')).toEqual(['AccessExclusiveLock']);
  });
});
