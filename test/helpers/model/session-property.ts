import * as fc from 'fast-check';
import { serialize } from 'pg-protocol';
import { expect } from 'vitest';
import {
  encodeMessage,
  errorFields,
  int32,
  parameterStatus,
  query,
} from '../../../src/postgres/protocol/messages.ts';
import type {
  Exactness,
  Gate,
  Observe,
  Observed,
  RelationLock,
  Statement,
} from '../../../src/proxy/observed.ts';
import { ModelServer, REFUSAL, REFUSED_SQL } from './model-server.ts';
import { type Lost, ModelSession, type SessionRun } from './model-session.ts';

const STATEMENTS = [
  'select 1',
  'insert into t values (1)',
  'insert into t values (2)',
  'insert into u values (1)',
  'create table a ()',
  'alter table a add c int',
  'begin',
  'commit',
  'rollback',
  'savepoint s',
  'rollback to s',
  'vacuum',
  'reindex table p',
  'select 1/0',
  'selec',
  'copy t to stdout',
  "set application_name = 'x'",
  "set application_name = 'y'",
  'insert into late values (1)',
  'select pg_sleep(9)',
  REFUSED_SQL,
] as const;
const COPY_IN = 'copy t from stdin';

/** One or more messages of the client's; a failure shows them in words. */
class Step {
  readonly shown: string;
  readonly #bytes: Buffer;

  constructor(shown: string, bytes: Buffer) {
    this.shown = shown;
    this.#bytes = bytes;
  }

  get bytes(): Buffer {
    return this.#bytes;
  }
}

const sql = fc.constantFrom(...STATEMENTS);
const name = fc.constantFrom('', 'n');
const data = fc
  .constantFrom('c', 'f')
  .map((end) =>
    Buffer.concat([
      encodeMessage(0x64, 'row\n'),
      end === 'c' ? serialize.copyDone() : serialize.copyFail('no'),
    ]),
  );
const step = (shown: string, bytes: Buffer) => new Step(shown, bytes);
const sync = step('sync', serialize.sync());
const parse = (text: string, name: string) => step(`parse ${name}: ${text}`, serialize.parse({ name, text }));
const bind = (portal: string, statement: string) =>
  step(`bind ${portal}=${statement}`, serialize.bind({ portal, statement }));
const execute = (portal: string, rows: number) =>
  step(`execute ${portal} ${rows}`, serialize.execute({ portal, rows }));

const texts = fc.array(
  fc.oneof({ weight: 8, arbitrary: sql }, { weight: 1, arbitrary: fc.constant(COPY_IN) }),
  {
    maxLength: 4,
  },
);
const queries = fc.tuple(texts, fc.array(data, { minLength: 4, maxLength: 4 })).map(([parts, rows]) => {
  const copies = parts.filter((part) => part === COPY_IN).length;
  const text = parts.join('; ');
  return [step(`query ${text}`, Buffer.concat([query(text), ...rows.slice(0, copies)]))];
});
const extended = fc.oneof(
  fc.tuple(sql, name).map(([text, name]) => parse(text, name)),
  fc.tuple(name, name).map(([portal, statement]) => bind(portal, statement)),
  fc
    .tuple(fc.constantFrom('S' as const, 'P' as const), name)
    .map(([type, name]) => step(`describe ${type} ${name}`, serialize.describe({ type, name }))),
  fc.tuple(name, fc.constantFrom(0, 1, 2, 3)).map(([portal, rows]) => execute(portal, rows)),
  fc
    .tuple(fc.constantFrom('S' as const, 'P' as const), name)
    .map(([type, name]) => step(`close ${type} ${name}`, serialize.close({ type, name }))),
  fc.constant(step('flush', serialize.flush())),
  fc.constant(sync),
);
const usual = fc
  .tuple(sql, name, fc.boolean(), fc.boolean())
  .map(([text, named, synced]) => [
    parse(text, named),
    bind('', named),
    execute('', 0),
    ...(synced ? [sync] : []),
    ...(named ? [step('close', serialize.close({ type: 'S', name: named }))] : []),
  ]);
/** Few names for few statements, one of which is refused: what a name stands for depends on what the server has refused or skipped. */
const renamed = fc.array(
  fc.oneof(
    fc.constantFrom('select 1', 'select 1/0', REFUSED_SQL).map((text) => parse(text, 'n')),
    fc.constantFrom('', 'n').map((portal) => bind(portal, 'n')),
    fc.constantFrom('', 'n').map((portal) => execute(portal, 0)),
    fc.constantFrom('begin', 'savepoint s', 'rollback to s').map((text) => step(text, query(text))),
    fc.constant(step('close', serialize.close({ type: 'S', name: 'n' }))),
    fc.constant(step('close portal', serialize.close({ type: 'P', name: 'n' }))),
    { weight: 2, arbitrary: fc.constant(sync) },
  ),
  { minLength: 4, maxLength: 12 },
);
const copying = fc
  .tuple(fc.boolean(), data)
  .map(([ahead, rows]) => [
    parse(COPY_IN, ''),
    bind('', ''),
    execute('', 0),
    ...(ahead ? [sync] : []),
    step('data', rows),
    sync,
  ]);
const call = fc.constant([step('call', encodeMessage(0x46, int32(1), Buffer.from([0, 0, 0, 0, 0, 0])))]);
const steps = fc
  .array(
    fc.oneof(
      { weight: 5, arbitrary: queries },
      { weight: 4, arbitrary: extended.map((each) => [each]) },
      { weight: 4, arbitrary: usual },
      { weight: 2, arbitrary: renamed },
      { weight: 1, arbitrary: copying },
      { weight: 1, arbitrary: call },
    ),
    { maxLength: 6 },
  )
  .map((each) => each.flat());

const plans = fc.record({
  steps,
  observe: fc.constantFrom<Observe[]>('exact', 'exact', 'sampled', 'off'),
  retries: fc.boolean(),
  choices: fc.array(fc.nat(60), { maxLength: 40 }),
});

const gateOf = (retries: boolean): Gate => ({
  before: ({ sql }) => (sql === REFUSED_SQL ? REFUSAL : 'run'),
  // What may be sent again is gathered first, although nothing here fails because of a lock.
  ...(retries && { after: async () => 'deliver' as const }),
});
const END = serialize.end();

function scriptOf(steps: readonly Step[]): Buffer {
  return Buffer.concat([...steps.map(({ bytes }) => bytes), sync.bytes, END]);
}

/** What the server itself answers to the same script. */
function direct(script: Buffer): { received: Buffer; server: ModelServer } {
  const server = new ModelServer(true);
  const received: Buffer[] = [];
  server.onSent = (bytes) => received.push(bytes);
  server.receive(script);
  while (server.sleeps) server.cancel();
  return { received: Buffer.concat(received), server };
}

/** The messages in short, and the parameters as they are at each ReadyForQuery: the server sends them before it. */
function conversation(bytes: Buffer, codeOf: (code: string) => string): string[] {
  const lines: string[] = [];
  const parameters = new Map([['application_name', '']]);
  for (let at = 0; at < bytes.length; ) {
    const frame = bytes.subarray(at, at + bytes.readUInt32BE(at + 1) + 1);
    at += frame.length;
    const type = String.fromCharCode(frame[0] ?? 0);
    if (type === 'S') {
      const { name, value } = parameterStatus(frame);
      parameters.set(name, value);
    } else if (type === 'E') lines.push(`E ${codeOf(errorFields(frame).get('C') ?? '')}`);
    else if (type === 'Z') lines.push(`Z ${frame.toString('latin1', 5)} ${[...parameters].join()}`);
    else lines.push(`${type} ${frame.toString('latin1', 5).replaceAll('\0', '')}`);
  }
  return lines;
}

/**
 * A session of the proxy answers as the server itself does, whatever is sent and however it is cut; what is refused never runs, and what the
 * observer is told is what the server has done.
 */
export const answersAsServer = fc.asyncProperty(plans, async ({ steps, observe, retries, choices }) => {
  const script = scriptOf(steps);
  const expected = direct(script);
  const gate = gateOf(retries);
  const run = await new ModelSession({ script, observe, gate, choices, lost: 'nobody' }).run();
  // A refusal counts, whatever fails before it up to the Sync, and in a portal as well that has ended with its transaction.
  const mayRefuse = steps.some(({ shown }) => shown.startsWith('parse') && shown.includes(REFUSED_SQL));
  const codeOf = (code: string) => (mayRefuse ? 'error' : code);
  expect(run.ended).toBe(true);
  same(conversation(run.received, codeOf), conversation(expected.received, codeOf));
  same(run.server.committed, expected.server.committed);
  same(
    run.server.ran.filter(({ sql, tag }) => sql === REFUSED_SQL && tag !== null),
    [],
  );
  if (observe === 'off') return;
  requireWholeTime(run);
  const statements = statementsOf(run.events);
  const { odd, ran } = expected.server;
  if (!odd && !mayRefuse)
    same(
      statements.map(({ sql, tag, error }) => ({ sql, tag, error })),
      ran.map(({ sql, tag, error }) => ({ sql, tag, error })),
    );
  if (observe === 'exact' && !odd) requireTrueLocks(statements, expected);
});

/** Whoever goes in the middle: the session ends, and every statement that began is known to have ended. */
export const endsWithEither = fc.asyncProperty(
  plans,
  fc.constantFrom<Lost[]>('client', 'server'),
  async ({ steps, observe, retries, choices }, lost) => {
    const script = scriptOf(steps);
    const gate = gateOf(retries);
    const run = await new ModelSession({ script, observe, gate, choices, lost }).run();
    expect(run.ended).toBe(true);
    statementsOf(run.events);
    same(
      run.server.ran.filter(({ sql, tag }) => sql === REFUSED_SQL && tag !== null),
      [],
    );
  },
);

/** Compares quickly, and shows the difference if there is one. */
function same<Value>(actual: Value, expected: Value): void {
  if (JSON.stringify(actual) !== JSON.stringify(expected)) expect(actual).toEqual(expected);
}

interface SeenStatement {
  readonly id: number;
  readonly sql: string;
  readonly tag: string | null;
  readonly error: string | null;
  readonly exactness: Exactness;
  readonly locks: readonly RelationLock[] | null;
  /** The locks are those of so many statements together. */
  readonly together: number;
}

/** Reads what was observed. @throws if a statement has not one beginning, end and report of its locks, in a transaction that ends. */
function statementsOf(events: readonly Observed[]): SeenStatement[] {
  const open = new Map<number, Statement>();
  const ended = new Map<number, Extract<Observed, { type: 'end' }>>();
  let seen: SeenStatement[] = [];
  const transactions = new Set<number>();
  for (const event of events) {
    if (event.type === 'begin') {
      expect(open.has(event.statement.id)).toBe(false);
      open.set(event.statement.id, event.statement);
      transactions.add(event.statement.transaction);
    } else if (event.type === 'end') {
      expect(ended.has(event.statement.id)).toBe(false);
      ended.set(event.statement.id, event);
    } else if (event.type === 'locks') {
      for (const { id, sql } of event.statements) {
        const { exactness, locks } = event;
        seen.push({ id, sql, tag: null, error: null, exactness, locks, together: event.statements.length });
      }
    } else if (event.type === 'undone') {
      const ids = new Set(event.statements.map(({ id }) => id));
      for (const id of ids) {
        open.delete(id);
        ended.delete(id);
      }
      seen = seen.filter(({ id }) => !ids.has(id));
    } else if (event.type === 'transaction-end') {
      expect(transactions.delete(event.transaction)).toBe(true);
    }
  }
  same([...transactions], []);
  same([...ended.keys()].sort(byNumber), [...open.keys()].sort(byNumber));
  same(seen.map(({ id }) => id).sort(byNumber), [...open.keys()].sort(byNumber));
  return seen
    .map((each) => {
      const { tag = null, error = null } = ended.get(each.id)?.outcome ?? {};
      return { ...each, tag, error: error?.get('C') ?? null };
    })
    .sort((one, other) => byNumber(one.id, other.id));
}

/** All the time that the server worked on statements is theirs, and no more than that. */
function requireWholeTime({ events, workedMs }: SessionRun): void {
  let charged = 0;
  for (const event of events)
    if (event.type === 'end') charged += event.outcome.durationMs - (event.outcome.preparedMs ?? 0);
  expect(charged).toBe(workedMs);
}

const byNumber = (one: number, other: number) => one - other;

/** Every reading is of what the server held, and nothing is unknown that succeeded in a transaction that did. */
function requireTrueLocks(
  statements: readonly SeenStatement[],
  { received, server }: Pick<SessionRun, 'received' | 'server'>,
): void {
  // What an open transaction did last was not read when its session ended.
  const isComplete = received.at(-1) === 'I'.charCodeAt(0) && statements.every(({ error }) => error === null);
  for (const [index, { sql, exactness, locks, together }] of statements.entries()) {
    if (isComplete) expect(`${sql}: ${exactness}`).not.toBe(`${sql}: unknown`);
    if (exactness !== 'exact' || together !== 1) continue;
    const held = server.ran[index]?.added.map((lock) => lock.replace(/^(.).*\//, '$1/')) ?? [];
    const seen = locks?.map(({ relation, mode }) => `${String.fromCharCode(relation)}/${mode}`) ?? [];
    same([sql, ...seen.sort()], [sql, ...held.sort()]);
  }
}
