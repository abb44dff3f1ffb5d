import type { HazardFacts } from '../model/hazard-facts.ts';
import type { StatementSection } from '../model/report.ts';
import type { StatementEffect, StatementFacts } from '../model/statement-actions.ts';
import { effectOfTag } from '../postgres/sql/classify-statement.ts';
import { normalizeSql, plainOf } from '../postgres/sql/normalize.ts';

/** The part of a run that shows whether an error was handled. */
type ErrorHistory = Pick<HazardFacts, 'statements' | 'transactions' | 'parsed' | 'sessionsOfPsql'>;

/**
 * The statements that failed, and that nothing made good. An error is expected if
 *
 * - the same statement succeeded later: a retry;
 * - the command went back to a savepoint of its own and committed; psql's ON_ERROR_ROLLBACK does so after any error;
 * - a tool asked for something that is not there, made something that is already there, or dropped a table that it had made and
 *   rolled back (so tools find out whether DDL is transactional), and then went on to write in the same session. psql goes on after
 *   any error, so there the query counts as expected only if what it asked for was made later.
 *
 * What else was rolled back together with an expected error must have been done later, too.
 */
export function swallowedErrors(history: ErrorHistory): StatementSection[] {
  const run = new Run(history);
  return history.statements.filter((statement) => statement.error !== null && !run.isExpected(statement));
}

/** psql makes this savepoint by itself. */
const SAVEPOINT_OF_PSQL = /\bpg_psql_temporary_savepoint\b/;
/** Errors of making something that is there. */
const ALREADY_THERE = new Set(['42P04', '42P06', '42P07', '42701', '42710', '42723', '23505']);
const UNDEFINED_TABLE = '42P01';
/** Errors that may be over when the same statement is sent again with other parameters. */
const TRANSIENT = /^(?:40|55P03|57014|08|53|0A000|26000)/;
const PARAMETER = /\$\d/;

class Run {
  readonly #history: ErrorHistory;
  readonly #kept: ReadonlySet<number>;
  /** The last statement that succeeded and was kept, by its text, and by its text without literals. */
  readonly #lastByText = new Map<string, number>();
  readonly #lastByShape = new Map<string, number>();
  readonly #lastWorkOf = new Map<number, number>();
  readonly #byTransaction = new Map<number, StatementSection[]>();
  readonly #madeTables: { readonly index: number; readonly name: string }[] = [];
  /** Tables that were made in transactions that were rolled back. */
  readonly #unmadeTables = new Set<string>();

  constructor(history: ErrorHistory) {
    this.#history = history;
    this.#kept = new Set(
      history.transactions
        .filter(({ outcome }) => outcome !== 'rolled back')
        .map(({ transaction }) => transaction),
    );
    if (history.statements.some(({ error }) => error !== null)) history.statements.forEach(this.#add, this);
  }

  #add(statement: StatementSection): void {
    const { index, transaction, session, sql, error } = statement;
    const own = this.#byTransaction.get(transaction);
    if (own) own.push(statement);
    else this.#byTransaction.set(transaction, [statement]);
    if (error !== null) return;
    const made = (this.#history.parsed.get(index)?.actions ?? [])
      .filter((action) => action.does === 'create table')
      .map(({ table }) => table.name.toLowerCase());
    if (!this.#kept.has(transaction)) {
      for (const name of made) this.#unmadeTables.add(name);
      return;
    }
    this.#lastByText.set(plainOf(sql), index);
    this.#lastByShape.set(normalizeSql(sql), index);
    if (this.#isWork(statement)) this.#lastWorkOf.set(session, index);
    for (const name of made) this.#madeTables.push({ index, name });
  }

  isExpected(failed: StatementSection): boolean {
    if (this.#wentBackToSavepoint(failed)) return true;
    if (!this.#wasRetried(failed) && !this.#wasHandled(failed)) return false;
    return this.#lostWith(failed).every(
      ({ sql, index }) => (this.#lastByShape.get(normalizeSql(sql)) ?? 0) > index,
    );
  }

  #wasRetried({ index, sql, error }: StatementSection): boolean {
    const isRepeatable = !PARAMETER.test(sql) || TRANSIENT.test(error?.sqlstate ?? '');
    return isRepeatable && (this.#lastByText.get(plainOf(sql)) ?? 0) > index;
  }

  #wentBackToSavepoint({ transaction, index }: StatementSection): boolean {
    if (!this.#kept.has(transaction)) return false;
    const own = this.#byTransaction.get(transaction) ?? [];
    const next = own.find((each) => each.index > index && each.error === null);
    const isBack =
      next !== undefined && this.#history.parsed.get(next.index)?.savepoint?.does === 'roll back';
    return isBack && !SAVEPOINT_OF_PSQL.test(next.sql);
  }

  /** Work of the failed statement's transaction that was rolled back with it. */
  #lostWith({ transaction, index }: StatementSection): StatementSection[] {
    if (this.#kept.has(transaction)) return [];
    const own = this.#byTransaction.get(transaction) ?? [];
    return own.filter((each) => each.index < index && this.#isWork(each));
  }

  #isWork(statement: StatementSection): boolean {
    const effect = effectOfStatement(statement, this.#history.parsed);
    return statement.error === null && (effect === 'rows' || effect === 'schema' || effect === 'storage');
  }

  #wasHandled(failed: StatementSection): boolean {
    const { index, session, sql, error } = failed;
    const isQuestion = this.#isQuestion(failed);
    const words = new Set(sql.toLowerCase().match(/[\w$\u0080-\uffff]+/g));
    if (isQuestion && this.#madeTables.some((made) => made.index > index && words.has(made.name)))
      return true;
    if (this.#history.sessionsOfPsql.has(session) || (this.#lastWorkOf.get(session) ?? 0) < index)
      return false;
    if (/^\s*drop\s+table\b/i.test(sql) && error?.sqlstate === UNDEFINED_TABLE)
      return [...words].some((word) => this.#unmadeTables.has(word));
    return isQuestion || ALREADY_THERE.has(error?.sqlstate ?? '') || /^\s*create\s+extension\b/i.test(sql);
  }

  /** It only reads, and did not fail inside a function, which may write. */
  #isQuestion({ index, error }: StatementSection): boolean {
    const effect = this.#history.parsed.get(index)?.effect;
    return (effect === 'reads' || effect === 'none') && error?.where == null;
  }
}

/**
 * Returns what a statement leaves behind: by the server's command tag, if the parser does not see it (EXECUTE, a text that it did
 * not accept).
 */
export function effectOfStatement(
  { index, tag }: Pick<StatementSection, 'index' | 'tag'>,
  parsed: ReadonlyMap<number, StatementFacts>,
): StatementEffect {
  const effect = parsed.get(index)?.effect ?? 'unknown';
  return effect === 'unknown' ? effectOfTag(tag) : effect;
}
