import type {
  Action,
  NamedLock,
  ReleasedLock,
  SavepointUse,
  StatementEffect,
} from '../../model/statement-actions.ts';
import { isNamingSetting, isReadingSetting } from './kinds/session-kinds.ts';
import { firstWord } from './normalize.ts';
import { locksOfQuery } from './query-locks.ts';
import { STATEMENT_KINDS } from './statement-kinds.ts';
import type {
  ConcurrentFailure,
  InBlock,
  Reach,
  Role,
  StatementKind,
  StatementProperties,
} from './statement-properties.ts';
import {
  calledFunctions,
  constantOf,
  type FieldsOf,
  isSystemFunction,
  kindOf,
  type Node,
  nodesWithin,
  walkTree,
} from './tree.ts';

/** Properties of a kind that is known at run time only: the fields it is asked about are those of that kind. */
type Properties = StatementProperties<never>;

/**
 * Properties of a kind that the table does not have, which only a newer grammar can make: it may do anything, its effect cannot
 * be undone, and it is not known what it means in a block, so it is sent as it came and never again.
 */
const UNKNOWN: Properties = {
  name: 'unknown',
  words: [],
  effect: 'unknown',
  reach: { beyond: 'server', why: 'safemigrate does not know this kind of statement' },
  inBlock: 'differs',
  evaluates: true,
  survivesRollback: true,
};

export function isStatementKind(kind: string): kind is StatementKind {
  return Object.hasOwn(STATEMENT_KINDS, kind);
}

/** Returns the fields of a statement if it is of this kind. */
export function fieldsIf<Kind extends StatementKind>(node: Node, kind: Kind): FieldsOf<Kind> | undefined {
  return node[kind] as FieldsOf<Kind> | undefined;
}

function propertiesOf(node: Node): Properties {
  const kind = kindOf(node);
  return isStatementKind(kind) ? (STATEMENT_KINDS[kind] as Properties) : UNKNOWN;
}

function fieldsOf(node: Node): never {
  return (node[kindOf(node)] ?? {}) as never;
}

/** The statement in PostgreSQL's words, `CREATE TABLE`; for a kind that the table does not have, its node's name. */
export function nameOfStatement(node: Node): string {
  const kind = kindOf(node);
  return isStatementKind(kind) ? STATEMENT_KINDS[kind].name : kind.replace(/Stmt$/, '');
}

export function roleOf(node: Node): Role {
  return propertiesOf(node).role?.(fieldsOf(node)) ?? 'ordinary';
}

/** INSERT, UPDATE, DELETE, MERGE. */
export function isDml(node: Node): boolean {
  return propertiesOf(node).dml === true;
}

const SAVEPOINTS: Readonly<Record<string, SavepointUse['does']>> = {
  TRANS_STMT_SAVEPOINT: 'set',
  TRANS_STMT_RELEASE: 'release',
  TRANS_STMT_ROLLBACK_TO: 'roll back',
};

/** The work of SAVEPOINT, RELEASE or ROLLBACK TO, and the name of the savepoint; undefined for any other statement. */
export function savepointOf(node: Node): SavepointUse | undefined {
  const { kind = '', savepoint_name: name = '' } = fieldsIf(node, 'TransactionStmt') ?? {};
  const does = SAVEPOINTS[kind];
  return does && { does, name };
}

/** ROLLBACK TO SAVEPOINT. */
export function isRollbackTo(node: Node): boolean {
  return savepointOf(node)?.does === 'roll back';
}

/** SELECT, VALUES, TABLE. */
export function isQuery(node: Node): boolean {
  return kindOf(node) === 'SelectStmt';
}

/** Client and server exchange data within the statement: COPY. */
export function copiesData(node: Node): boolean {
  return propertiesOf(node).copies === true;
}

/** The statement concerns only its session or its transaction. */
export function isIncidental(node: Node): boolean {
  return propertiesOf(node).incidental === true;
}

/** Returns how far the effect of a statement goes, not counting the functions that it calls. */
export function reachOf(node: Node): Reach {
  const { reach } = propertiesOf(node);
  return typeof reach === 'function' ? reach(fieldsOf(node)) : reach;
}

/** Returns the statement with the name of the object that it makes, if the server can reach other systems through that. */
export function outsideMadeBy(node: Node): string | undefined {
  return propertiesOf(node).outside?.(fieldsOf(node));
}

/** Tells if functions of users may run in the statement: called ones, triggers of DML, or the scripts of an extension. */
export function mayRunUserCode(node: Node): boolean {
  const { runsCode, dml, evaluates } = propertiesOf(node);
  return (
    runsCode === true ||
    dml === true ||
    (evaluates === true && !calledFunctions(node).every(isSystemFunction))
  );
}

/** Returns the code that the statement runs, beside its bodies: of all that it names, none of that, or code that is not known. */
export function runsOf(node: Node): 'named' | 'nothing' | 'unknown' {
  return propertiesOf(node).runs ?? 'named';
}

/** Returns the name of the relation through which the expressions and queries of the statement run later on. */
export function keptInOf(node: Node): string | undefined {
  return propertiesOf(node).keptIn?.(fieldsOf(node))?.relname;
}

/** Returns the name of the view that the statement makes. */
export function viewOf(node: Node): string | undefined {
  return propertiesOf(node).writesThrough ? keptInOf(node) : undefined;
}

/** The statement evaluates the expressions in it. */
export function evaluatesExpressions(node: Node): boolean {
  return propertiesOf(node).evaluates === true;
}

/** The statement may be sent to another database of the server, since it changes nothing there. */
export function isHarmlessElsewhere(node: Node): boolean {
  return propertiesOf(node).elsewhere === true && (!holdsStatement(node) || !writesWithin(node));
}

/** The statement may hold others: a query its CTEs, PREPARE what it prepares. */
function holdsStatement(node: Node): boolean {
  return isQuery(node) || kindOf(node) === 'PrepareStmt';
}

export function inBlock(node: Node): InBlock {
  const { inBlock: rule = 'same' } = propertiesOf(node);
  return typeof rule === 'function' ? rule(fieldsOf(node)) : rule;
}

/**
 * Tells if a statement that is alone outside a transaction does the same between BEGIN and COMMIT. If the server refuses it
 * there (25001, 2D000) although this says yes, a partitioned table for example, it is sent again without them.
 */
export function meansTheSameInBlock(node: Node): boolean {
  return inBlock(node) === 'same';
}

/** Returns what a failed attempt leaves behind for the next one, if the statement says CONCURRENTLY; else undefined. */
export function concurrentFailure(node: Node): ConcurrentFailure | undefined {
  const { concurrent } = propertiesOf(node);
  return concurrent?.says(fieldsOf(node)) ? concurrent.failure : undefined;
}

/** Returns the keyword that CONCURRENTLY stands behind, if the statement has a concurrent form. */
export function concurrentKeyword(node: Node): string | undefined {
  return propertiesOf(node).concurrent?.behind?.(fieldsOf(node));
}

/** The statement says NOWAIT, itself or in a FOR UPDATE. */
export function saysNowait(node: Node): boolean {
  if (propertiesOf(node).nowait?.(fieldsOf(node))) return true;
  return nodesWithin(node, 'LockingClause').some(({ waitPolicy }) => waitPolicy === 'LockWaitError');
}

/** Returns what a statement asks for; nothing if no hazard depends on it. */
export function actionsOf(node: Node): readonly Action[] {
  return propertiesOf(node).actions?.(fieldsOf(node)) ?? [];
}

/** Returns the locks that PostgreSQL takes on the relations which a statement names, to the end of its transaction. */
export function namedLocks(node: Node): readonly NamedLock[] {
  return propertiesOf(node).locks?.(fieldsOf(node)) ?? locksOfQuery(node);
}

/** Returns the locks that a statement takes and releases before its end. */
export function releasedLocks(node: Node): readonly ReleasedLock[] {
  return propertiesOf(node).releases?.(fieldsOf(node)) ?? [];
}

/** The weakest first. */
const EFFECTS: readonly StatementEffect[] = [
  'none',
  'reads',
  'rows',
  'storage',
  'schema',
  'cluster',
  'unknown',
];

/** Returns the effect of statements that run one after the other; of none, `none`. */
export function strongestEffect(effects: readonly StatementEffect[]): StatementEffect {
  return EFFECTS.findLast((effect) => effects.includes(effect)) ?? 'none';
}

/** Returns what the statement leaves behind, not counting the statements and functions within it. */
function ownEffect(node: Node): StatementEffect {
  const { effect } = propertiesOf(node);
  return typeof effect === 'function' ? effect(fieldsOf(node)) : effect;
}

/** Returns what the statement leaves behind; of `reads` only the functions that it calls may write. */
export function effectOf(node: Node): StatementEffect {
  const effect = ownEffect(node);
  return effect === 'reads' ? strongestEffect([effect, ...effectsWithin(node)]) : effect;
}

/** A statement within the statement writes, or a SELECT … INTO makes a table. */
export function writesWithin(node: Node): boolean {
  return !['none', 'reads'].includes(strongestEffect(effectsWithin(node)));
}

function effectsWithin(node: Node): StatementEffect[] {
  const effects: StatementEffect[] = [];
  walkTree(fieldsOf(node), (key, fields) => {
    if (key === 'intoClause') effects.push('schema');
    if (isStatementKind(key)) effects.push(ownEffect({ [key]: fields }));
  });
  return effects;
}

/** After the statement, DML of the same text may take other locks: definitions have changed, or what names mean. */
export function changesLocksOfDml(node: Node): boolean {
  if (CHANGING.has(ownEffect(node)) || propertiesOf(node).changesNames?.(fieldsOf(node))) return true;
  return isQuery(node) && settingsNamedBy(node).some(isNamingSetting);
}

const CHANGING: ReadonlySet<StatementEffect> = new Set(['schema', 'cluster', 'unknown']);

/**
 * Tells if the statement changes how texts are read. The server reads a text once, before it runs anything of it, so
 * the statements behind this one must not be sent by themselves.
 */
export function changesReading(node: Node): boolean {
  if (propertiesOf(node).changesReading?.(fieldsOf(node))) return true;
  return isQuery(node) && settingsNamedBy(node).some(isReadingSetting);
}

/**
 * The settings that a SET or RESET names, or that a query may change by set_config(): any text in such a query may be the
 * name of one.
 */
export function settingsNamedBy(node: Node): string[] {
  const set = fieldsIf(node, 'VariableSetStmt');
  if (set) return set.name === undefined ? [] : [set.name];
  if (!isQuery(node) || !calledFunctions(node).some(({ name }) => name === 'set_config')) return [];
  return nodesWithin(node, 'A_Const').flatMap((constant) => constantOf({ A_Const: constant }) ?? []);
}

const SESSION_LOCK = /\bpg_(?:try_)?advisory_(?:un)?lock/i;

/**
 * Tells if a text of these statements, outside a transaction, is one that leaves nothing behind if it fails. Sequences go on
 * all the same, and so does what a function does elsewhere.
 * @param text names functions that statements within literals may call.
 */
export function leavesNothingBehind(text: string, nodes: readonly Node[]): boolean {
  return nodes.every((node) => !propertiesOf(node).survivesRollback) && !SESSION_LOCK.test(text);
}

/** The words that only statements with a property begin with. */
function wordsOf(has: (properties: Properties) => boolean): ReadonlySet<string> {
  const all = Object.values(STATEMENT_KINDS) as Properties[];
  const opening = (properties: Properties) => properties.words ?? [properties.name.split(' ')[0] ?? ''];
  const others = new Set(all.filter((properties) => !has(properties)).flatMap(opening));
  return new Set(
    all
      .filter(has)
      .flatMap(opening)
      .filter((word) => !others.has(word)),
  );
}

const EFFECT_OF_WORD: ReadonlyMap<string, StatementEffect> = new Map(
  EFFECTS.flatMap((effect) =>
    [...wordsOf((properties) => properties.effect === effect)].map((word) => [word, effect] as const),
  ),
);

/**
 * Reads what the server's command tag (`INSERT 0 1`) tells of a statement that the parser does not see: `unknown` if statements of
 * several effects have the same word.
 */
export function effectOfTag(tag: string | null): StatementEffect {
  return EFFECT_OF_WORD.get(firstWord(tag ?? '')) ?? 'unknown';
}

const DML_WORDS = wordsOf(({ dml }) => dml === true);
const DATA_WORDS = wordsOf(({ data }) => data === true);
const PREPARABLE_WORDS = wordsOf(({ preparable }) => preparable === true);
const INCIDENTAL_WORDS = wordsOf(({ incidental }) => incidental === true);

/*
 * Judges texts that the parser cannot or need not read, redacted ones for example, by their first word. It cannot tell a query
 * that begins with WITH from a DML statement that does.
 */
export const beginsAsDml = (sql: string) => DML_WORDS.has(firstWord(sql));
/** The text begins as a statement that moves rows: a query, DML, COPY or FETCH. */
export const beginsAsData = (sql: string) =>
  DATA_WORDS.has(firstWord(sql)) && !/^\s*prepare\s+transaction\b/i.test(sql);
/** The text begins as one that PREPARE takes: a query or DML. */
export const beginsAsPreparable = (sql: string) => PREPARABLE_WORDS.has(firstWord(sql));
/** The text begins as one that concerns only its session or transaction. */
export const beginsAsIncidental = (sql: string) => INCIDENTAL_WORDS.has(firstWord(sql));
