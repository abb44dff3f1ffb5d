import { formatCount, formatDuration, listed } from '../../format.ts';
import type { StatementSection } from '../../model/report.ts';
import { beginsAsData, beginsAsIncidental } from '../../postgres/sql/classify-statement.ts';
import { locksEvidence, relationEvidence, rowCount } from '../evidence.ts';
import type { HazardContext, StatementLock } from '../hazard-context.ts';
import { type Finding, type HazardRecord, sqlAdvice } from '../hazard-definition.ts';
import { milder, weighLock, weighRows, worst } from '../severity.ts';
import { LINGERING_MS, MANY_ROWS } from '../thresholds.ts';
import { isBuilt } from './builds.ts';
import { withLockTimeout } from './lock-timeout.ts';
import { isOfEmptyColumn } from './scans.ts';

/** How a migration behaves between BEGIN and COMMIT. */
export const TRANSACTIONS: readonly HazardRecord[] = [
  {
    code: 'NO_LOCK_TIMEOUT',
    title: 'strong locks are waited for without a limit',
    condition: 'A lock that keeps out reads or writes, taken by a session that has set no lock_timeout.',
    effect:
      'Behind a long-running transaction the statement waits, and everybody who comes after it waits behind it: a short ALTER TABLE becomes an outage.',
    safer: 'SET lock_timeout to a few seconds, and try again when it runs out (SQLSTATE 55P03).',
    find: (ground) => sessionsOf(ground).flatMap((statements) => withoutLimit(ground, statements)),
  },
  {
    code: 'WORK_AFTER_STRONG_LOCK',
    title: 'a table stays locked while other work goes on',
    condition:
      'After ACCESS EXCLUSIVE on a table, its transaction builds, reads or rewrites something else, or goes on for a while.',
    effect: 'The lock is held until the transaction ends: all of that work is time in which nobody can read.',
    safer: 'Each strong lock in a transaction of its own, and the long work before it or after it.',
    find: (ground) => strongTransactions(ground).flatMap(({ takers }) => lingering(ground, takers)),
  },
  {
    code: 'SEVERAL_STRONG_LOCKS',
    title: 'several tables are locked one after the other in one transaction',
    condition:
      'Statements of one transaction take ACCESS EXCLUSIVE on two or more tables that were there before.',
    effect:
      'Whoever uses the tables in another order deadlocks with it, and the first stays locked while the second is waited for.',
    safer: 'A transaction for each table.',
    find: (ground) =>
      strongTransactions(ground).flatMap(({ takers }) => {
        const locks = takers.flatMap(({ locks }) => locks);
        const last = takers.at(-1);
        if (!last || takers.length < 2 || new Set(locks.map(({ relation }) => relation)).size < 2) return [];
        return [
          {
            statement: last.statement.index,
            relation: last.locks[0]?.relation ?? null,
            severity: milder(worst(locks.map((lock) => weighLock(ground, lock, false)))),
            message: `one transaction locks ${listed([...new Set(locks.map(({ relation }) => relation))], { separator: ', then ' })}`,
            evidence: locksEvidence(ground, locks),
            advice: 'Change each table in a transaction of its own.',
          },
        ];
      }),
  },
  {
    code: 'BACKFILL_WITH_DDL',
    title: 'rows are changed while a table is locked',
    condition: `A transaction that holds ACCESS EXCLUSIVE also changes ${formatCount(MANY_ROWS)} rows or more.`,
    effect: 'Nobody can read the table until all rows are changed; when that fails, all of it is undone.',
    safer: 'First the DDL alone, then the rows in batches, each in a transaction of its own.',
    find: (ground) =>
      strongTransactions(ground).flatMap(({ takers, statements }) => {
        const changed = statements.flatMap((statement) => changedRows(ground, statement, true));
        const [taker] = takers;
        const rows = total(changed);
        if (!taker || rows < MANY_ROWS) return [];
        const locks = takers.flatMap(({ locks }) => locks);
        return [
          {
            statement: changed[0]?.statement.index ?? taker.statement.index,
            relation: locks[0]?.relation ?? null,
            severity: worst(locks.map((lock) => weighLock(ground, lock, false))),
            message: `${formatCount(rows)} rows are changed while ${locks[0]?.relation} is locked`,
            evidence: locksEvidence(ground, locks),
            advice: 'Commit the DDL first, and change the rows afterwards, in batches of some thousands.',
          },
        ];
      }),
  },
  {
    code: 'BACKFILL_IN_ONE_TRANSACTION',
    title: 'many rows are changed in one transaction',
    condition: `UPDATE, DELETE or MERGE of ${formatCount(MANY_ROWS)} rows or more of tables that were there before, in one transaction.`,
    effect:
      'The rows stay locked until its end, replicas fall behind, vacuum cannot remove what is dead, and a failure undoes all of it.',
    safer: 'Batches of some thousands of rows by the primary key, each in a transaction of its own.',
    find: (ground) =>
      [...ground.transactions()].flatMap((statements): Finding[] => {
        const changed = statements.flatMap((statement) => changedRows(ground, statement, false));
        const [first] = changed;
        const rows = total(changed);
        if (!first || rows < MANY_ROWS) return [];
        const openMs =
          first.statement.locks?.reduce((longest, { heldMs }) => Math.max(longest, heldMs ?? 0), 0) ?? null;
        return [
          {
            statement: first.statement.index,
            relation: first.relation,
            severity: weighRows(rows, openMs),
            message: `${formatCount(rows)} rows of ${listed([...new Set(changed.map(({ relation }) => relation))])} are changed in one transaction`,
            evidence: `${rowCount(rows, true)} in ${formatDuration(changed.reduce((sum, { statement }) => sum + statement.durationMs, 0))}; ${relationEvidence(ground, first.relation)}`,
            advice: sqlAdvice(
              'Repeat a batch, committing after each, until it changes nothing:',
              `${batchOf(first)} WHERE ctid IN (SELECT ctid FROM ${first.relation} WHERE … LIMIT 5000)`,
            ),
          },
        ];
      }),
  },
];

interface Taker {
  readonly statement: StatementSection;
  readonly locks: readonly StatementLock[];
}

/** Transactions that take ACCESS EXCLUSIVE on what was there before, and which of their statements do. */
function strongTransactions(
  ground: HazardContext,
): { readonly statements: readonly StatementSection[]; readonly takers: readonly Taker[] }[] {
  return [...ground.transactions()]
    .map((statements) => ({
      statements,
      takers: statements
        .map((statement) => ({ statement, locks: ground.taken(statement, 'reads') }))
        .filter(({ locks }) => locks.length > 0),
    }))
    .filter(({ takers }) => takers.length > 0);
}

function lingering(ground: HazardContext, takers: readonly Taker[]): Finding[] {
  const [first] = takers;
  if (!first) return [];
  const { statement, locks } = first;
  const later = laterWork(ground, statement).filter((each) => heavy(ground, each));
  const heldMs = Math.max(...locks.map((lock) => lock.heldMs ?? 0));
  const beyondMs = heldMs - statement.durationMs;
  // Rows that are changed meanwhile have a hazard of their own.
  const changing = ground.inTransactionOf(statement).flatMap((each) => changedRows(ground, each, true));
  if (
    later.length === 0 &&
    (beyondMs < LINGERING_MS || total(changing) >= MANY_ROWS || statement.tag === 'LOCK TABLE')
  )
    return [];
  const what = later[0]
    ? `${later[0].tag ?? 'more'} (statement ${later[0].index}) runs`
    : 'its transaction goes on';
  return [
    {
      statement: statement.index,
      relation: locks[0]?.relation ?? null,
      severity: worst(locks.map((lock) => weighLock(ground, lock, later.length > 0))),
      message: `${listed(locks.map(({ relation }) => relation))} stays locked while ${what}`,
      evidence: `${locksEvidence(ground, locks)}, of which the statement itself took ${formatDuration(statement.durationMs)}`,
      advice: later[0]
        ? `Commit after statement ${statement.index}, or move statement ${later[0].index} into a transaction before it.`
        : `Commit right after statement ${statement.index}.`,
    },
  ];
}

/** What a migration tool writes into its own table. */
const BOOKKEEPING_ROWS = 10;

/** What its transaction still does behind a statement, but control and bookkeeping. */
export function laterWork(ground: HazardContext, statement: StatementSection): StatementSection[] {
  return ground.inTransactionOf(statement).filter(({ index, tag, error, rows, sql }) => {
    if (index <= statement.index || error) return false;
    if (beginsAsData(tag ?? '')) return (rows ?? 0) > BOOKKEEPING_ROWS;
    return !beginsAsIncidental(tag ?? '') && tag !== 'PREPARE TRANSACTION' && sql !== '';
  });
}

/** Works through a relation that was there before; rows that are changed are told by themselves. */
function heavy(ground: HazardContext, statement: StatementSection): boolean {
  if (statement.rewrote.some((relation) => ground.relation(relation))) return true;
  return ground.actions(statement).some((action) => {
    if (action.does === 'refresh') return true;
    const table =
      'table' in action && action.table !== null ? ground.resolve(action.table, statement) : undefined;
    if (table === undefined || !ground.relation(table) || ground.isReplaced(table, statement)) return false;
    return (
      (action.does === 'create index' && isBuilt(ground, { statement, action })) ||
      action.does === 'validate constraint' ||
      action.does === 'set not null' ||
      (action.does === 'add constraint' &&
        !action.notValid &&
        action.usingIndex === null &&
        !(action.kind === 'foreign key' && isOfEmptyColumn(ground, { statement, action })))
    );
  });
}

function withoutLimit(ground: HazardContext, statements: readonly StatementSection[]): Finding[] {
  const limited = withLockTimeout(ground, statements);
  const strong = statements
    .filter(({ index }) => !limited.has(index))
    .map((statement) => ({ statement, locks: ground.taken(statement, 'writes') }))
    .filter(({ locks }) => locks.length > 0);
  const [first] = strong;
  if (!first) return [];
  const locks = strong.flatMap((each) => each.locks);
  const others = strong.length - 1;
  return [
    {
      statement: first.statement.index,
      relation: first.locks[0]?.relation ?? null,
      severity: worst(locks.map((lock) => milder(weighLock(ground, { ...lock, heldMs: lock.heldMs ?? 0 })))),
      message: `${first.statement.tag ?? 'a statement'} waits for its lock without a limit${others > 0 ? `, and so ${others === 1 ? 'does one more' : `do ${formatCount(others)} more`}` : ''}`,
      evidence: locksEvidence(ground, first.locks),
      advice: sqlAdvice(
        'At the beginning of the session, and try again after SQLSTATE 55P03:',
        "SET lock_timeout = '2s'",
      ),
    },
  ];
}

function sessionsOf({ facts }: HazardContext): StatementSection[][] {
  const sessions = new Map<number, StatementSection[]>();
  for (const statement of facts.statements) {
    const own = sessions.get(statement.session);
    if (own) own.push(statement);
    else sessions.set(statement.session, [statement]);
  }
  return [...sessions.values()];
}

interface Changed {
  readonly statement: StatementSection;
  readonly relation: string;
  readonly rows: number;
  readonly verb: 'insert' | 'update' | 'delete' | 'merge';
}

function batchOf({ verb, relation }: Changed): string {
  return verb === 'delete' ? `DELETE FROM ${relation}` : `UPDATE ${relation} SET …`;
}

/** Rows of a table that was there before which one statement changed; new ones are counted on request. */
function changedRows(ground: HazardContext, statement: StatementSection, inserted: boolean): Changed[] {
  if (statement.error || statement.rows === null) return [];
  const { rows } = statement;
  return ground.actions(statement).flatMap((action) => {
    const changes = action.does === 'update' || action.does === 'delete' || action.does === 'merge';
    const fills = inserted && action.does === 'insert' && rows > BOOKKEEPING_ROWS;
    if (!changes && !fills) return [];
    const relation = ground.resolve(action.table, statement);
    const isOld = ground.relation(relation) && !ground.isReplaced(relation, statement);
    return isOld ? [{ statement, relation, rows, verb: action.does }] : [];
  });
}

function total(changed: readonly Changed[]): number {
  return changed.reduce((sum, { rows }) => sum + rows, 0);
}
