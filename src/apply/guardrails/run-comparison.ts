import { createHash } from 'node:crypto';
import { partsOf } from '../../boundary/statement-parts.ts';
import type { Name } from '../../model/statement-actions.ts';
import { LARGEST_TEXT_BYTES } from '../../postgres/protocol/frames.ts';
import {
  beginsAsData,
  fieldsIf,
  isIncidental,
  isQuery,
  writesWithin,
} from '../../postgres/sql/classify-statement.ts';
import { LocalNames, type LocalReading } from '../../postgres/sql/local-names.ts';
import { decidesMeaning, isCustomSetting, MeaningSettings } from '../../postgres/sql/meaning-settings.ts';
import { type ParsedStatement, parseText } from '../../postgres/sql/parse.ts';
import { likenessHash, shapeHash } from '../../postgres/sql/statement-hashes.ts';
import { calledFunctions, type Node, nameOf, nodesWithin } from '../../postgres/sql/tree.ts';
import { shapeWithoutValues } from '../../postgres/sql/value-shape.ts';
import { type Rehearsed, textHash } from '../../rehearsal/receipts/rehearsed.ts';
import { lowerCaseWords, sharesAny, type TargetNames } from './target-names.ts';

interface SentStatement {
  readonly session: number;
  readonly sql: string;
  /** null if it could not be parsed. */
  readonly parsed: Pick<ParsedStatement, 'node' | 'role'> | null;
}

/**
 * - `other values`: a rehearsed definition with other literals.
 * - `other settings`: a rehearsed statement, under settings that may give it another meaning.
 */
export type Compared = 'rehearsed' | 'other values' | 'other settings' | 'not rehearsed';

export interface Comparing {
  readonly target: TargetNames;
  /** The rehearsal's report was redacted. */
  readonly redacted?: boolean;
}

/** Carries the session states while the statements of the rehearsal are read. */
interface Reading {
  readonly points: DefinitionPoints;
  readonly names: LocalNames;
  readonly settings: MeaningSettings;
}

/** Queries with this word have to be parsed: they may change settings. */
const SETS = /\bset_config\b/i;

/** Compares the statements of another run of the command with those of its rehearsal. */
export class RunComparison {
  readonly #comparing: Comparing;
  readonly #databases: readonly string[];
  /**
   * The settings of each rehearsed statement, by the statement's key; undefined if its position in the rehearsal is not known.
   */
  readonly #rehearsed = new Map<string, Set<string> | undefined>();
  /** Every setting of the rehearsal, with each of its values. */
  readonly #settingsSeen = new Set<string>();
  /** Where the rehearsal's definitions stood, without their values. */
  readonly #knownPoints = new Set<string>();
  /** The local names in each statement of the rehearsal that has any, by the key of the statement without them. */
  readonly #knownLocal = new Map<string, (readonly string[])[]>();
  readonly #knownNames = new Set<string>();
  readonly #points: DefinitionPoints;
  readonly #names = new LocalNames();
  readonly #settings = new MeaningSettings();

  private constructor(databases: readonly string[], comparing: Comparing) {
    this.#comparing = comparing;
    this.#databases = databases;
    this.#points = new DefinitionPoints(comparing.target);
  }

  static async with({ statements, databases }: Rehearsed, comparing: Comparing): Promise<RunComparison> {
    const comparison = new RunComparison(databases, comparing);
    const read: Reading = {
      points: new DefinitionPoints(comparing.target),
      names: new LocalNames(),
      settings: new MeaningSettings(),
    };
    // Later statements of a long command are grouped, and their order is not known.
    const firstGroup = statements.find(({ repeated }) => repeated !== undefined)?.index ?? Infinity;
    for (const { index, session, sql, repeated = [] } of statements) {
      const isNeeded = read.names.mayConcern(session, sql) || SETS.test(sql) || comparison.#mayExecute(sql);
      const [parsed = null] = isNeeded ? ((await parseText(Buffer.from(sql))) ?? []) : [];
      comparison.#learn({ session, sql, parsed }, read, repeated, index < firstGroup);
    }
    return comparison;
  }

  /** Takes every statement in its order. */
  next(sent: SentStatement): Compared {
    const { session, sql, parsed } = sent;
    // The rehearsal kept only the size of such a text.
    if (!parsed && Buffer.byteLength(sql) > LARGEST_TEXT_BYTES) return 'rehearsed';
    const node = parsed?.node ?? null;
    const settings = this.settingsOf(session);
    this.#settings.take(session, node);
    const local = this.#names.read(session, sql, node);
    const point = local?.own ? undefined : this.#points.next(sent);
    if (node && isNotCompared(node, this.#comparing.target)) return 'rehearsed';
    const key = this.#keyOf(sql, node, local);
    if (this.#rehearsed.has(key) && (!local || this.#isKnown(key, local)))
      return this.#hadSettings(key, settings) ? 'rehearsed' : 'other settings';
    return point !== undefined && this.#knownPoints.has(point) ? 'other values' : 'not rehearsed';
  }

  /** Returns the deciding settings of a session: `name = value`, or names alone after a redacted rehearsal. */
  settingsOf(session: number): readonly string[] {
    return labelsOf(this.#settings.of(session), this.#comparing);
  }

  #learn(
    { session, sql, parsed }: SentStatement,
    { points, names, settings }: Reading,
    likenesses: readonly string[],
    isOrdered: boolean,
  ): void {
    const node = parsed?.node ?? null;
    const before = labelsOf(settings.of(session), this.#comparing);
    settings.take(session, node);
    for (const label of labelsOf(settings.of(session), this.#comparing)) this.#settingsSeen.add(label);
    const local = names.read(session, sql, node);
    const key = this.#keyOf(sql, node, local);
    for (const each of [key, ...likenesses]) this.#remember(each, isOrdered ? before : undefined);
    if (local) {
      this.#knownLocal.set(key, [...(this.#knownLocal.get(key) ?? []), local.names]);
      for (const name of local.names) this.#knownNames.add(name);
    }
    const point = local?.own ? undefined : points.next({ session, sql, parsed });
    if (point !== undefined) this.#knownPoints.add(point);
  }

  #remember(key: string, settings: readonly string[] | undefined): void {
    const before = this.#rehearsed.get(key);
    const isAny = settings === undefined || (this.#rehearsed.has(key) && before === undefined);
    this.#rehearsed.set(key, isAny ? undefined : new Set([...(before ?? []), settings.join()]));
  }

  #hadSettings(key: string, settings: readonly string[]): boolean {
    const rehearsed = this.#rehearsed.get(key);
    return rehearsed?.has(settings.join()) ?? settings.every((each) => this.#settingsSeen.has(each));
  }

  /**
   * A local name of the rehearsal means itself. Another one may replace any name of the same definition, unless a relation of the
   * target has it.
   */
  #isKnown(key: string, { names }: LocalReading): boolean {
    const isMadeUp = (name: string) =>
      !this.#knownNames.has(name) && !this.#comparing.target.relations.has(name);
    return (this.#knownLocal.get(key) ?? []).some(
      (alike) =>
        alike.length === names.length && names.every((name, at) => name === alike[at] || isMadeUp(name)),
    );
  }

  /**
   * Returns the key of a statement: DDL is compared by its text, or by its normalized text if the rehearsal was redacted; DML, queries and
   * custom settings by their normalized text, in any number of repetitions; a call of a function that executes texts by its text.
   */
  #keyOf(sql: string, node: Node | null, local: LocalReading | undefined): string {
    const text = local?.text ?? sql;
    const isByLikeness =
      local?.own === true || (node && fieldsIf(node, 'VariableSetStmt')) || beginsAsData(sql);
    const { target, redacted } = this.#comparing;
    if (isByLikeness && (redacted || !executesText(node, target))) return likenessHash(text);
    return redacted ? shapeHash(text) : textHash(text, this.#databases);
  }

  #mayExecute(sql: string): boolean {
    const { executing } = this.#comparing.target;
    return executing.size > 0 && sharesAny(executing, lowerCaseWords(sql));
  }
}

function executesText(node: Node | null, { executing }: TargetNames): boolean {
  if (node === null || executing.size === 0) return false;
  return calledFunctions(node).some(({ name }) => executing.has(name));
}

function labelsOf(settings: ReadonlyMap<string, string>, { redacted = false }: Comparing): string[] {
  return [...settings].map(([name, value]) => (redacted ? name : `${name} = ${value}`)).sort();
}

/**
 * Tells at which point of its session each definition stands: by its own shape and that of the definition before it, both
 * without values. The end or the beginning of a transaction is a new start, since a command that is rerun skips what it has
 * committed.
 */
export class DefinitionPoints {
  /** The shape of the last definition, by session. */
  readonly #last = new Map<number, string>();
  readonly #target: TargetNames;

  constructor(target: TargetNames) {
    this.#target = target;
  }

  /** Takes every statement in its order. @returns undefined if it is no definition, or could not be parsed. */
  next({ session, sql, parsed }: SentStatement): string | undefined {
    if (parsed && parsed.role !== 'ordinary') this.#last.delete(session);
    if (parsed?.role !== 'ordinary' || beginsAsData(sql)) return undefined;
    if (isNotCompared(parsed.node, this.#target)) return undefined;
    const shape = createHash('sha256').update(shapeWithoutValues(parsed.node)).digest('base64url');
    const point = `${this.#last.get(session) ?? 'start'} ${shape}`;
    this.#last.set(session, shape);
    return point;
  }
}

/**
 * Says whether a statement need not have been rehearsed: it begins or ends a transaction, makes a setting with which
 * later statements are compared, or reads the catalogue and changes nothing.
 */
function isNotCompared(node: Node, target: TargetNames): boolean {
  const set = fieldsIf(node, 'VariableSetStmt');
  if (set?.name !== undefined) return !isCustomSetting(set.name) || !decidesMeaning(set.name);
  if (fieldsIf(node, 'NotifyStmt') || fieldsIf(node, 'CheckPointStmt')) return false;
  return isIncidental(node) || readsCatalogue(node, target);
}

/** Says whether a SELECT names only relations and reading functions of PostgreSQL, and locks no row. */
function readsCatalogue(node: Node, target: TargetNames): boolean {
  if (!isQuery(node) || writesWithin(node) || nodesWithin(node, 'LockingClause').length > 0) return false;
  const ctes = new Set(nodesWithin(node, 'CommonTableExpr').map(({ ctename }) => ctename ?? ''));
  const isOfServer = ({ schema, name }: Name) =>
    schema === null
      ? ctes.has(name) || (name.startsWith('pg_') && !target.relations.has(name))
      : schema === 'pg_catalog' || schema === 'information_schema';
  return (
    nodesWithin(node, 'RangeVar').every((relation) => isOfServer(nameOf(relation))) &&
    calledFunctions(node).every((called) => changesNothing(called, target)) &&
    !sharesAny(target.code, partsOf(node).words)
  );
}

function changesNothing({ schema, name }: Name, { reading }: TargetNames): boolean {
  return (schema === null || schema === 'pg_catalog') && (reading.has(name) || name === 'set_config');
}
