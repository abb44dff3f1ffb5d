import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { StatementSection } from '../../../src/model/statement-model.ts';
import { withLocksByRule } from '../../../src/observe/locks-by-rule.ts';
import { readBodies } from '../../../src/observe/locks-in-bodies.ts';
import { allRelations, type RelationTree } from '../../../src/observe/relation-names.ts';
import { openSession } from '../../../src/postgres/connection/connect.ts';
import { parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../../src/postgres/connection/environment.ts';
import { LOCK_MODES } from '../../../src/postgres/lock-modes.ts';
import { type TemporaryDatabase, temporaryDatabase, withClient } from '../../helpers/database.ts';
import { HOLDING } from '../../helpers/lock-corpus.ts';
import { heldInTransaction, lockDatabase } from '../../helpers/lock-names.ts';
import { reportedStatements } from '../../helpers/reported-statements.ts';
import { OLDEST_AND_NEWEST } from '../../helpers/servers.ts';

/** Not for a body, or another statement there (SELECT … INTO assigns to a variable); what is renamed has its new name afterwards. */
const NOT_IN_BODIES = /^(?:copy|explain|call|do|select \* into|alter [a-z ]+ \S+ (?:rename to|set schema)) ?/;

/** Tables, partitioned tables, views, materialized views and sequences. */
const NAMED = /^[rpvmS]$/;
/** What blocks neither writes nor DDL of others. */
const WEAK = /^(?:ACCESS SHARE|ROW SHARE|ROW EXCLUSIVE)$/;

/** The strongest mode of each relation. */
const strongest = (locks: readonly string[]): Map<string, string> => {
  const parts: string[][] = locks.map((lock) => /^(.*?) ([A-Z ]+)$/.exec(lock) ?? []);
  const modes: readonly string[] = LOCK_MODES;
  const inOrder = parts.toSorted(
    ([, , one = ''], [, , other = '']) => modes.indexOf(one) - modes.indexOf(other),
  );
  return new Map(inOrder.map(([, relation = '', mode = '']) => [relation, mode]));
};

const sectionOf = (sql: string): StatementSection => ({
  index: 1,
  session: 1,
  sql,
  tag: 'DO',
  startedAt: new Date(0).toISOString(),
  durationMs: 3,
  rows: null,
  transaction: 1,
  explicit: false,
  exactness: 'sampled',
  error: null,
  locks: [],
  rewrote: [],
  walBytes: null,
});

const byRule = async (tree: RelationTree, sql: string): Promise<string[]> => {
  const section = sectionOf(`do $block$ begin ${sql}; commit; end $block$`);
  const bodies = await readBodies([section], new Map(), []);
  const rules = { parsed: new Map(), tree, made: new Set<number>(), searchPath: ['public'], bodies };
  const [ruled] = withLocksByRule([section], rules);
  return (ruled?.locks ?? []).map(({ relation, mode }) => `${relation} ${mode}`).sort();
};

describe.each(OLDEST_AND_NEWEST)('on PostgreSQL %d', (version) => {
  let template: TemporaryDatabase;
  let tree: RelationTree;
  beforeAll(async () => {
    template = await lockDatabase(version);
    const session = await openSession(parseSettings(template.url, readEnvironment({}, '/')), {
      purpose: 'inspect',
    });
    tree = await allRelations(session);
    await session.close();
  });
  afterAll(() => template.drop());

  test('statements in a body hold the locks that are listed by rule, and nothing stronger on what they name', async () => {
    const tooMuch: string[] = [];
    const missing: string[] = [];
    const names = new Set([...tree.values()].flatMap(({ name, kind }) => (NAMED.test(kind) ? [name] : [])));
    let named = 0;
    for (const sql of HOLDING.filter((each) => !NOT_IN_BODIES.test(each))) {
      const held = await heldInTransaction(template, sql);
      if (held === null) continue;
      const ruled = await byRule(tree, sql);
      tooMuch.push(...ruled.filter((lock) => !held.includes(lock)).map((lock) => `${sql}: ${lock}`));
      const words: readonly string[] = sql.match(/"[^"]*"|\w+/g) ?? [];
      for (const [relation, mode] of strongest(held)) {
        if (WEAK.test(mode) || !names.has(relation) || !words.includes(relation.replace(/^\w+\./, '')))
          continue;
        named += 1;
        const own = strongest(ruled).get(relation);
        if (own !== mode) missing.push(`${sql}: ${relation} ${mode}, not ${own}`);
      }
    }
    expect(tooMuch).toEqual([]);
    expect(named).toBeGreaterThan(100);
    expect(missing).toEqual([]);
  }, 60_000);

  test.each<readonly [what: string, sent: readonly string[], locks: readonly string[]]>([
    ['a procedure that was there', ['call steps()'], ['public.t ROW EXCLUSIVE', 'apart.x ROW EXCLUSIVE']],
    [
      'a procedure that the command makes and drops',
      [
        `create procedure own(n int) language plpgsql as $$ begin
           alter table other add column more int; commit; update t set n = 1; commit; call steps(); end $$`,
        'call own(5)',
        'drop procedure own',
      ],
      ['apart.x ROW EXCLUSIVE', 'public.other ACCESS EXCLUSIVE', 'public.t ROW EXCLUSIVE'],
    ],
    [
      'a block',
      [
        `do $$ begin execute 'alter table other add column more int'; commit;
           loop delete from ref; exit when not found; commit; truncate wide; end loop; end $$`,
      ],
      ['public.other ACCESS EXCLUSIVE', 'public.ref ROW EXCLUSIVE'],
    ],
  ])('%s that commits has the locks of its statements', async (_, sent, locks) => {
    const copy = await temporaryDatabase(version, { template: template.name });
    const { statements } = await reportedStatements(copy, (url) =>
      withClient(url, async (client) => {
        for (const sql of sent) await client.query(sql);
      }),
    );
    await copy.drop();
    const within = statements.find(({ tag }) => tag === 'CALL' || tag === 'DO');
    expect(within?.exactness).toBe('sampled');
    const reported = within?.locks?.map(({ relation, mode }) => `${relation} ${mode}`) ?? [];
    expect(reported).toEqual(expect.arrayContaining([...locks]));
    expect(reported.filter((lock) => lock.startsWith('public.wide '))).toEqual([]);
    expect(within?.locks?.every(({ heldMs }) => heldMs !== null && heldMs <= within.durationMs + 25)).toBe(
      true,
    );
  });
});
