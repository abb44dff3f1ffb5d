import type { Hazard, StatementSection } from '../model/report.ts';
import { fieldsIf, inBlock } from '../postgres/sql/classify-statement.ts';
import type { Node } from '../postgres/sql/tree.ts';
import { type KeptStatement, keptStatements, type Recording, type Unit, unitsOf } from './kept-statements.ts';
import { locksFirst } from './locks-first.ts';
import { hasForm, rewriteStatement } from './safer-forms.ts';
import { isDividing, LOCKS_FIRST, wordsOfForm } from './scripted-hazards.ts';
import { SessionSettings } from './session-settings.ts';
import { type Before, isLeft, left, type Rewriting, type ScriptStep, subjectWith } from './subject.ts';

// From the statements that the command sent, a script that leaves the same schema and the same rows, and blocks others less.

/** Statements of the script that belong together. */
export interface ScriptPart {
  readonly comment: string | null;
  readonly statements: readonly string[];
  /** Statement that begins their transaction; null: each is one by itself. */
  readonly begin: string | null;
  /** The statement of the command that they take the place of. Absent of those that are as the command sent them. */
  readonly instead?: number;
  /** The statements of the command that they are, as it sent them; absent of those that are in its place. */
  readonly as?: readonly number[];
}

/** A statement that the script has in another form, or as it was. */
export interface ScriptChange {
  readonly statement: number | null;
  readonly codes: string[];
  /** Says what the script does, or why the statement is left as it was. */
  readonly words: string;
}

export const LOCK_TIMEOUT = "SET lock_timeout = '2s'";
export const NO_LOCK_TIMEOUT = 'SET lock_timeout = 0';
export const RESET_LOCK_TIMEOUT = 'RESET lock_timeout';

/**
 * Writes these statements as a script; it has no changes if none of the hazards can be taken away.
 * @param staying what has no safer form, whatever the statement is
 * @param failed statements whose safer form was tried and failed, with the reason: they stay as they were
 */
export function writeScript(
  recording: Pick<Recording, 'context' | 'sessions'>,
  before: Before,
  kept: readonly KeptStatement[],
  hazards: readonly Hazard[],
  staying: readonly ScriptChange[] = [],
  failed: FailedForms = new Map(),
): WrittenScript {
  const writer = new ScriptWriter(recording, before, staying, failed);
  for (const unit of unitsOf(kept, recording.context.facts.statements)) writer.add(unit);
  const stale = hazards.filter(({ code }) => code === 'STATISTICS_MISSING');
  for (const { statement, relation } of stale) if (relation !== null) writer.analyze(statement, relation);
  return writer;
}

/** Why the safer form of a statement failed, by the statement's index. */
export type FailedForms = ReadonlyMap<number, string>;

/** A script; `left` are statements with such hazards that are left as they were. */
export type WrittenScript = Pick<ScriptWriter, 'parts' | 'changes' | 'left' | 'lockedFirst'>;

class ScriptWriter {
  readonly parts: ScriptPart[] = [{ comment: null, statements: [LOCK_TIMEOUT], begin: null }];
  readonly changes: ScriptChange[] = [];
  readonly left: ScriptChange[];
  /** Statements whose transaction takes its locks at its beginning. */
  readonly lockedFirst: number[] = [];
  readonly #context: Recording['context'];
  readonly #sessions: SessionSettings;
  readonly #before: Before;
  readonly #failed: FailedForms;
  #lockTimeout = LOCK_TIMEOUT;

  constructor(
    { context, sessions }: Pick<Recording, 'context' | 'sessions'>,
    before: Before,
    staying: readonly ScriptChange[],
    failed: FailedForms,
  ) {
    this.#failed = failed;
    this.left = [...staying];
    this.#before = before;
    this.#context = context;
    this.#sessions = new SessionSettings(sessions, (name) => !name.endsWith('_timeout'));
  }

  add(unit: Unit): void {
    this.#enter(unit[0].section);
    const mustStay = unit.some(({ subject: { node } }) => inBlock(node) === 'required' && !isCheckNow(node));
    if (this.#lockFirst(unit, mustStay)) return;
    const divided = unit.filter(({ subject }) => [...subject.codes].some(isDividing));
    const isDivided = divided.length > 0 && !mustStay;
    const together: KeptStatement[] = [];
    for (const kept of unit) {
      const rewriting = mustStay ? stays(kept) : this.#rewrite(kept);
      if (rewriting && !isLeft(rewriting)) {
        this.#keep(together.splice(0));
        this.#replace(kept, rewriting);
        continue;
      }
      const codes = [...kept.subject.codes].filter((code) => mustStay || hasForm(code));
      if (rewriting) this.left.push(changeOf(kept.section, codes, rewriting.reason));
      together.push(kept);
      if (isDivided) this.#keep(together.splice(0));
    }
    this.#keep(together);
    if (!isDivided) return;
    for (const { section, subject } of divided) {
      const codes = [...subject.codes].filter((code) => isDividing(code) && !hasForm(code));
      if (codes.length > 0) this.changes.push(changeOf(section, codes));
    }
  }

  /** Keeps a transaction whose only hazard is the order of its locks, or that cannot be divided. @returns whether it is one */
  #lockFirst(unit: Unit, mustStay: boolean): boolean {
    const found = unit.find(({ subject }) => subject.codes.has(LOCKS_FIRST.code));
    if (!found || this.#failed.has(found.section.index)) return false;
    const others = unit.flatMap(({ section, subject }) => {
      const codes = [...subject.codes].filter((code) => code !== LOCKS_FIRST.code);
      return codes.length === 0 ? [] : [changeOf(section, codes, TRANSACTION_STAYS)];
    });
    const locks = mustStay || others.length === 0 ? locksFirst(this.#context, unit) : null;
    if (locks === null) return false;
    const { index } = found.section;
    this.left.push(...others);
    this.lockedFirst.push(index);
    this.changes.push(changeOf(found.section, [LOCKS_FIRST.code], LOCKS_FIRST.words));
    const sent = unit.map((kept) => this.#note(kept));
    this.parts.push({
      comment: `${LOCKS_FIRST.code}: ${LOCKS_FIRST.words}`,
      statements: [...locks, ...sent],
      begin: unit[0].begin ?? 'BEGIN',
      instead: index,
    });
    return true;
  }

  /** Follows the settings of the session. @returns the statement */
  #note(kept: KeptStatement): string {
    this.#sessions.note(kept);
    if (kept.setsLockTimeout) this.#lockTimeout = kept.subject.sql;
    return kept.subject.sql;
  }

  #rewrite({ section, subject }: KeptStatement): Rewriting | undefined {
    const reason = this.#failed.get(section.index);
    const rewriting = rewriteStatement(subjectWith(subject, this.#before));
    return rewriting && reason !== undefined ? left(reason) : rewriting;
  }

  analyze(statement: number | null, relation: string): void {
    this.parts.push({
      comment: 'Statistics for the planner',
      statements: [`ANALYZE ${relation}`],
      begin: null,
    });
    this.changes.push({
      statement,
      codes: ['STATISTICS_MISSING'],
      words: wordsOfForm('STATISTICS_MISSING'),
    });
  }

  #enter({ session }: StatementSection): void {
    const { reset, settings } = this.#sessions.enter(session);
    const statements = [
      ...reset,
      ...(reset.length > 0 ? [LOCK_TIMEOUT] : []),
      ...settings.map(({ sql }) => sql),
    ];
    if (statements.length === 0) return;
    this.parts.push({ comment: null, statements, begin: null });
    const own = settings.findLast(({ setsLockTimeout }) => setsLockTimeout)?.sql;
    if (reset.length > 0 || own !== undefined) this.#lockTimeout = own ?? LOCK_TIMEOUT;
  }

  #keep(statements: readonly KeptStatement[]): void {
    // Alone, it warns and does nothing.
    if (statements.length <= 1 && statements.every(({ subject }) => isCheckNow(subject.node))) return;
    const [first] = statements;
    const begin = statements.length > 1 ? (first?.begin ?? 'BEGIN') : null;
    const reasons = this.left.filter(({ statement }) =>
      statements.some(({ section }) => section.index === statement),
    );
    const comment = reasons
      .map(({ codes, words }) => `Left as it was (${codes.join(', ')}): ${words}`)
      .join('; ');
    this.parts.push({
      comment: comment || null,
      statements: statements.map((each) => this.#note(each)),
      begin,
    });
  }

  #replace({ section, subject }: KeptStatement, steps: readonly ScriptStep[]): void {
    const codes = [...subject.codes].filter(hasForm);
    const change = changeOf(section, codes);
    this.changes.push(change);
    this.parts.push({
      comment: `${change.codes.join(', ')}: ${change.words}`,
      statements: steps.flatMap(({ sql, waits }) =>
        waits ? [NO_LOCK_TIMEOUT, sql, this.#lockTimeout] : [sql],
      ),
      begin: null,
      instead: section.index,
    });
  }
}

/** SET CONSTRAINTS … IMMEDIATE means what the end of a transaction does anyway. */
function isCheckNow(node: Node): boolean {
  const set = fieldsIf(node, 'ConstraintsSetStmt');
  return set !== undefined && set.deferred !== true;
}

function changeOf(section: StatementSection, codes: Iterable<string>, reason?: string): ScriptChange {
  const named = [...codes];
  const words = reason ?? [...new Set(named.map(wordsOfForm))].join('; ');
  return { statement: section.index, codes: named, words };
}

const TRANSACTION_STAYS = 'its transaction holds a lock or a setting that would end with it';

function stays({ subject }: KeptStatement): Rewriting | undefined {
  return subject.codes.size === 0 ? undefined : left(TRANSACTION_STAYS);
}

/** Returns the script as SQL, statement by statement. */
export function statementsOfScript(parts: readonly ScriptPart[]): string[] {
  return parts.flatMap(({ statements, begin }) =>
    begin === null ? [...statements] : [begin, ...statements, 'COMMIT'],
  );
}

/** Returns the same with the statement of the command that each is, and whether a transaction is open after it. A COMMIT counts as the last one before it. */
export function stepsOfScript(parts: readonly ScriptPart[]) {
  return parts.flatMap(({ statements, begin, as = [] }) => {
    const own = statements.map((sql, at) => ({ sql, statement: as[at] ?? null, isInside: begin !== null }));
    const outside = { statement: null, isInside: false };
    if (begin === null) return own;
    const commit = { sql: 'COMMIT', statement: as.at(-1) ?? null, isInside: false };
    return [{ sql: begin, ...outside }, ...own, commit];
  });
}

/** Finds the statement of the command whose safer form has this statement of the script. @param at its place among statementsOfScript() */
export function insteadOf(parts: readonly ScriptPart[], at: number): number | undefined {
  let next = 0;
  return parts.find((part) => {
    next += statementsOfScript([part]).length;
    return at < next;
  })?.instead;
}

/** Without it, psql takes a file to be in the encoding of its locale. */
const ENCODING = "SET client_encoding = 'UTF8';";

/**
 * Returns the script as a file for psql.
 * @param heading lines of its first comment @param commands of psql, before the first statement
 */
export function renderScript(
  parts: readonly ScriptPart[],
  heading: readonly string[],
  commands: readonly string[] = [],
): string {
  const comment = (text: string) => text.split(/\r\n?|\n/).map((line) => `-- ${line}`.trimEnd());
  const blocks = parts.map((part) => [
    ...(part.comment === null ? [] : comment(part.comment)),
    ...statementsOfScript([part]).map((sql) => `${sql};`),
  ]);
  const texts = [heading.flatMap(comment), [...commands, ENCODING], ...blocks];
  return `${texts.map((lines) => lines.join('\n')).join('\n\n')}\n`;
}

/**
 * Writes what the command sent as a script of one session: its transactions, and what the migration tool records about itself. Empty if
 * the command sent nothing that leaves anything.
 * @throws Error in words for the user if that is not possible
 */
export async function writeVerbatim(recording: Recording) {
  const { facts } = recording.context;
  const kept = await keptStatements(recording, [], 'verbatim');
  const starts = new Set(kept.map(({ section }) => recording.sessions.get(section.session)));
  refuseSeveral('the database', new Set([...starts].map((start) => start?.database)));
  refuseSeveral('the role', new Set([...starts].map((start) => start?.user)));
  const sessions = new SessionSettings(recording.sessions, () => true);
  const parts: ScriptPart[] = [];
  const units = unitsOf(kept, facts.statements);
  for (const unit of units) {
    const [{ section, begin }] = unit;
    const { reset, settings } = sessions.enter(section.session);
    const entering = [...reset, ...settings.map(({ sql }) => sql)];
    if (entering.length > 0) parts.push({ comment: null, statements: entering, begin: null });
    const isBlock = section.explicit || unit.length > 1;
    parts.push({
      comment: null,
      statements: unit.map(({ subject }) => subject.sql),
      begin: isBlock ? (begin ?? 'BEGIN') : null,
      as: unit.map((each) => each.section.index),
    });
    for (const each of unit) sessions.note(each);
  }
  return { parts, statements: kept.length, transactions: units.length };
}

function refuseSeveral(what: string, values: ReadonlySet<string | undefined>): void {
  if (values.size > 1)
    throw new Error(
      `the sessions of the command differ in ${what} (${[...values].join(', ')}), and a script is one session`,
    );
}
