import type { HazardContext } from '../hazards/hazard-context.ts';
import { newlyNotNull } from '../hazards/kinds/builds.ts';
import { mayRewrite } from '../hazards/kinds/rewrite-causes.ts';
import type { Hazard, StatementSection } from '../model/report.ts';
import type { SessionStart } from '../observe/command-watch.ts';
import { fieldsIf, isQuery, roleOf, writesWithin } from '../postgres/sql/classify-statement.ts';
import { statementWithoutSecrets } from '../postgres/sql/statement-secrets.ts';
import {
  calledFunctions,
  isSystemFunction,
  kindOf,
  type Node,
  nameOf,
  nodesWithin,
} from '../postgres/sql/tree.ts';
import { BATCHED_FROM_ROWS } from './batches.ts';
import { isOfRows } from './scripted-hazards.ts';
import { type ReadStatement, readStatement } from './subject.ts';

/** Statements that the command sent, with facts about them. */
export interface Recording {
  readonly context: HazardContext;
  /** By the index of the statement, with its secrets. `values`: null if they cannot be written as SQL. */
  readonly sent: ReadonlyMap<
    number,
    { readonly sql: string | null; readonly values: readonly string[] | null | undefined }
  >;
  readonly sessions: ReadonlyMap<number, SessionStart>;
}

/** A safer form has limits of its own in place of the command's. */
type ScriptForm = 'safer' | 'verbatim';

/** A statement that the script has to have, in one form or another. */
export interface KeptStatement {
  readonly section: StatementSection;
  readonly subject: ReadStatement;
  /** Statement that began its transaction; undefined if none did. */
  readonly begin: string | undefined;
  readonly setsLockTimeout: boolean;
}

/**
 * Returns the statements that leave something, in the order in which they were sent: without queries, transaction control, and what
 * failed or was rolled back.
 * @param hazards that a script is to take away
 * @throws Error in words for the user if one of them cannot be written
 */
export async function keptStatements(
  recording: Recording,
  hazards: readonly Hazard[],
  form: ScriptForm,
): Promise<KeptStatement[]> {
  const { facts } = recording.context;
  const transactions = new Map(facts.transactions.map((each) => [each.transaction, each]));
  const codes = codesByStatement(recording, hazards);
  const begins = new Map<number, string>();
  const kept: KeptStatement[] = [];
  for (const section of facts.statements) {
    const { index, error, transaction, explicit, rolledBack } = section;
    const outcome = transactions.get(transaction)?.outcome;
    if (error !== null || rolledBack || outcome === 'rolled back') continue;
    const read = await readKept(recording, section);
    if (read === null) continue;
    if (roleOf(read.node) === 'begin') begins.set(transaction, read.sql);
    const actions = recording.context.actions(section);
    const timeout = actions.find((action) => action.does === 'set lock_timeout');
    if (leavesNothing(read.node)) continue;
    // The script has another one.
    if (form === 'safer' && (timeout?.off || isOwnTimeout(read.node) || kindOf(read.node) === 'DiscardStmt'))
      continue;
    refuseUnwritable(read, section);
    if (explicit && outcome === 'unknown')
      throw new Error(`the end of the transaction of statement ${index} was not seen`);
    const subject = readStatementOf(recording, section, read, codes.get(index) ?? new Set());
    const setsLockTimeout = timeout !== undefined;
    kept.push({ section, subject, begin: begins.get(transaction), setsLockTimeout });
  }
  return kept;
}

/** The hazards by statement; those of rows by every statement that changes many. */
function codesByStatement(
  { context }: Recording,
  hazards: readonly Hazard[],
): ReadonlyMap<number, ReadonlySet<string>> {
  const codes = new Map<number, Set<string>>();
  const add = (index: number, code: string) => codes.set(index, (codes.get(index) ?? new Set()).add(code));
  for (const { code, statement: index } of hazards) {
    const statement = context.facts.statements.find((each) => each.index === index);
    if (!statement) continue;
    const others = isOfRows(code) ? context.inTransactionOf(statement).filter(changesMany) : [statement];
    for (const each of others.length > 0 ? others : [statement]) add(each.index, code);
    // Once its transaction is divided, a lock that an earlier statement took does not cover it any more.
    for (const each of context.inTransactionOf(statement))
      if (dropsIndex(context, each)) add(each.index, 'DROP_INDEX_NOT_CONCURRENT');
  }
  return codes;
}

function dropsIndex(context: HazardContext, statement: StatementSection): boolean {
  return context
    .actionsIn(statement, 'drop')
    .some(({ action }) => action.kind === 'index' && !action.concurrently && !action.cascade);
}

function changesMany({ rows, tag }: StatementSection): boolean {
  return (rows ?? 0) >= BATCHED_FROM_ROWS && /^(?:UPDATE|DELETE)\b/.test(tag ?? '');
}

type Read = NonNullable<Awaited<ReturnType<typeof readStatement>>>;

/** Returns null if it is not a statement. @throws Error if its text is not known */
async function readKept({ sent }: Recording, { index, note, tag, repeated }: StatementSection) {
  const { sql = null, values = [] } = sent.get(index) ?? {};
  if (note === 'implicit end' || tag === null) return null;
  if (repeated)
    throw new Error(
      'the command sent more than 2,000 statements, and the report keeps each loop as one statement: a script of them would be incomplete',
    );
  if (sql === null)
    throw new Error(`the text of statement ${index} was too large to be kept, or was prepared elsewhere`);
  const read = await readStatement(sql, values ?? []);
  if (read === null) throw new Error(`statement ${index} was not read by the parser`);
  return { ...read, isExact: values !== null, hasSecret: statementWithoutSecrets(sql) !== sql };
}

/** @throws Error in words for the user if a script cannot have the statement */
function refuseUnwritable(
  { node, isExact, hasSecret }: NonNullable<Awaited<ReturnType<typeof readKept>>>,
  { index }: StatementSection,
): void {
  if (hasSecret) throw new Error(`statement ${index} contains a password, which is not written to a file`);
  if (!isExact) throw new Error(`the parameters of statement ${index} came in a format that is not read`);
  if (roleOf(node) === 'prepare-transaction')
    throw new Error(`statement ${index} prepares a transaction (PREPARE TRANSACTION)`);
  if (nodesWithin(node, 'CurrentOfExpr').length > 0)
    throw new Error(`statement ${index} goes by a cursor of the command`);
  const copy = fieldsIf(node, 'CopyStmt');
  if (copy?.is_from && copy.filename === undefined)
    throw new Error(
      `statement ${index} copies rows from the command (COPY … FROM STDIN), which were not kept: copy them in a migration of their own`,
    );
}

function readStatementOf(
  { context }: Recording,
  section: StatementSection,
  read: Read,
  codes: ReadonlySet<string>,
): ReadStatement {
  const relation: ReadStatement['relation'] = (range) => context.resolve(nameOf(range), section);
  return {
    ...read,
    codes,
    relation,
    rows: section.rows ?? 0,
    rewrites: (column) => mayRewrite(context, section, column),
    newlyNotNull: (range) => newlyNotNull(context, relation(range)).map(unquoted),
  };
}

const unquoted = (name: string) => (name.startsWith('"') ? name.slice(1, -1).replaceAll('""', '"') : name);

/** A limit of one transaction, `SET LOCAL statement_timeout`, which has no meaning once its statements are divided. */
function isOwnTimeout(node: Node): boolean {
  const { name = '', is_local: isLocal = false } = fieldsIf(node, 'VariableSetStmt') ?? {};
  return isLocal && name.endsWith('_timeout');
}

const READING: ReadonlySet<string> = new Set([
  ...[
    'VariableShowStmt',
    'ExplainStmt',
    'DeclareCursorStmt',
    'FetchStmt',
    'ClosePortalStmt',
    'DeallocateStmt',
  ],
  ...['ListenStmt', 'UnlistenStmt', 'CheckPointStmt'],
]);

/** Functions of PostgreSQL's own with a lasting effect. */
const WRITING =
  /^(?:set_config|setval|nextval|lo_.*|lowrite|pg_notify|pg_logical_emit_message|query_to_xml.*)$/;

/** The statement only reads, or controls its transaction or session. A function that is not PostgreSQL's own may do anything. */
function leavesNothing(node: Node): boolean {
  const role = roleOf(node);
  if (role === 'prepare-transaction') return false;
  if (role !== 'ordinary' || READING.has(kindOf(node))) return !writesWithin(node);
  const copy = fieldsIf(node, 'CopyStmt');
  if (copy && !copy.is_from && copy.filename === undefined) return !writesWithin(node);
  if (!isQuery(node) || writesWithin(node)) return false;
  return calledFunctions(node).every((name) => isSystemFunction(name) && !WRITING.test(name.name));
}

/** One transaction of the command. */
export type Unit = readonly [KeptStatement, ...KeptStatement[]];

/**
 * Groups statements by their transaction, in the order in which the transactions ended: one that ended later saw what the others
 * had left. @param all what the command sent, with its COMMITs
 */
export function unitsOf(statements: readonly KeptStatement[], all: readonly StatementSection[]): Unit[] {
  const ends = new Map(all.map(({ transaction, index }) => [transaction, index]));
  const units = new Map<number, [KeptStatement, ...KeptStatement[]]>();
  for (const each of statements) {
    const unit = units.get(each.section.transaction);
    if (unit) unit.push(each);
    else units.set(each.section.transaction, [each]);
  }
  const endOf = ([{ section }]: Unit) => ends.get(section.transaction) ?? section.index;
  return [...units.values()].sort((one, other) => endOf(one) - endOf(other));
}
