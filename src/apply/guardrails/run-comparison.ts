import { createHash } from 'node:crypto';
import type { Name } from '../../model/statement-actions.ts';
import { LARGEST_TEXT_BYTES } from '../../postgres/protocol/frames.ts';
import { beginsAsData, isIncidental, isQuery, writesWithin } from '../../postgres/sql/classify-statement.ts';
import { LocalNames, type LocalReading, likenessOf } from '../../postgres/sql/local-names.ts';
import { type ParsedStatement, parseText } from '../../postgres/sql/parse.ts';
import { likenessHash, shapeHash } from '../../postgres/sql/statement-hashes.ts';
import {
  calledFunctions,
  isSystemFunction,
  type Node,
  nameOf,
  nodesWithin,
} from '../../postgres/sql/tree.ts';
import { shapeWithoutValues } from '../../postgres/sql/value-shape.ts';
import { type Rehearsed, textHash } from '../../rehearsal/receipts/rehearsed.ts';

interface SentStatement {
  readonly session: number;
  readonly sql: string;
  /** null if it could not be parsed. */
  readonly parsed: Pick<ParsedStatement, 'node' | 'role'> | null;
}

export type Compared = 'rehearsed' | 'other values' | 'not rehearsed';

/** Compares the statements of another run of the command with those of its rehearsal. */
export class RunComparison {
  readonly #rehearsed: Rehearsed;
  readonly #comparing: Comparing;
  /** Where the rehearsal's definitions stood, without their values. */
  readonly #knownPoints = new Set<string>();
  /** The local names in each statement of the rehearsal that has any, by the key of the statement without them. */
  readonly #knownLocal = new Map<string, (readonly string[])[]>();
  readonly #knownNames = new Set<string>();
  readonly #points = new DefinitionPoints();
  readonly #names = new LocalNames();

  private constructor(rehearsed: Rehearsed, comparing: Comparing) {
    this.#rehearsed = rehearsed;
    this.#comparing = comparing;
  }

  static async with(rehearsed: Rehearsed, comparing: Comparing = {}): Promise<RunComparison> {
    const comparison = new RunComparison(rehearsed, comparing);
    const points = new DefinitionPoints();
    const names = new LocalNames();
    for (const { session, sql } of rehearsed.statements) {
      if (!names.mayConcern(session, sql)) continue;
      const [parsed = null] = (await parseText(Buffer.from(sql))) ?? [];
      comparison.#learn({ session, sql, parsed }, points, names);
    }
    return comparison;
  }

  /** Takes every statement in its order. */
  next(sent: SentStatement): Compared {
    const { sql, parsed } = sent;
    // The rehearsal kept only the size of such a text.
    if (!parsed && Buffer.byteLength(sql) > LARGEST_TEXT_BYTES) return 'rehearsed';
    const node = parsed?.node ?? null;
    const local = this.#names.read(sent.session, sql, node);
    const point = local?.own ? undefined : this.#points.next(sent);
    if (!diverges(this.#rehearsed, { sql, node }, this.#comparing)) return 'rehearsed';
    if (local && this.#isKnown(local)) return 'rehearsed';
    return point !== undefined && this.#knownPoints.has(point) ? 'other values' : 'not rehearsed';
  }

  #learn(statement: SentStatement, points: DefinitionPoints, names: LocalNames): void {
    const { session, sql, parsed } = statement;
    const local = names.read(session, sql, parsed?.node ?? null);
    if (local) {
      const key = this.#keyOf(local);
      this.#knownLocal.set(key, [...(this.#knownLocal.get(key) ?? []), local.names]);
      for (const name of local.names) this.#knownNames.add(name);
    }
    const point = local?.own ? undefined : points.next(statement);
    if (point !== undefined) this.#knownPoints.add(point);
  }

  /** A name that the rehearsal had stands for itself; another one for any that was given to the same definition. */
  #isKnown(local: LocalReading): boolean {
    const alike = this.#knownLocal.get(this.#keyOf(local)) ?? [];
    return alike.some(
      (names) =>
        names.length === local.names.length &&
        local.names.every((name, at) => name === names[at] || !this.#knownNames.has(name)),
    );
  }

  #keyOf(local: LocalReading): string {
    return likenessOf(local) ?? textKeyOf(local.text, this.#comparing);
  }
}

/**
 * Tells at which point of its session each definition stands: by its own shape and that of the definition before it, both
 * without values. The end or the beginning of a transaction is a new start, since a command that is rerun skips what it has
 * committed.
 */
export class DefinitionPoints {
  /** The shape of the last definition, by session. */
  readonly #last = new Map<number, string>();

  /** Takes every statement in its order. @returns undefined if it is no definition, or could not be parsed. */
  next({ session, sql, parsed }: SentStatement): string | undefined {
    if (parsed && parsed.role !== 'ordinary') this.#last.delete(session);
    if (parsed?.role !== 'ordinary' || beginsAsData(sql) || isNotCompared(parsed.node)) return undefined;
    const shape = createHash('sha256').update(shapeWithoutValues(parsed.node)).digest('base64url');
    const point = `${this.#last.get(session) ?? 'start'} ${shape}`;
    this.#last.set(session, shape);
    return point;
  }
}

export interface Comparing {
  /** The rehearsal's report was redacted. */
  readonly redacted?: boolean;
  /** The target's name. */
  readonly database?: string;
}

/**
 * Says whether a statement was not rehearsed. DDL is compared by its text, or by its normalized text if the rehearsal was
 * redacted; DML by its normalized text, in any number of repetitions.
 */
export function diverges(
  rehearsed: Rehearsed,
  { sql, node }: { readonly sql: string; readonly node: Node | null },
  comparing: Comparing = {},
): boolean {
  if (node && isNotCompared(node)) return false;
  return beginsAsData(sql)
    ? !rehearsed.dml.has(likenessHash(sql))
    : !rehearsed.ddl.has(textKeyOf(sql, comparing));
}

/** Returns the hash by which DDL is compared. */
export function textKeyOf(sql: string, { redacted = false, database }: Comparing): string {
  return redacted ? shapeHash(sql) : textHash(sql, database === undefined ? [] : [database]);
}

/** Says whether a statement need not be compared: SET, BEGIN, and queries of the catalogue. */
export function isNotCompared(node: Node): boolean {
  return isIncidental(node) || readsCatalogue(node);
}

/** Says whether it is a SELECT that names only system relations and functions, and locks no row. */
function readsCatalogue(node: Node): boolean {
  if (!isQuery(node) || writesWithin(node) || nodesWithin(node, 'LockingClause').length > 0) return false;
  const ctes = new Set(nodesWithin(node, 'CommonTableExpr').map(({ ctename }) => ctename ?? ''));
  return (
    nodesWithin(node, 'RangeVar').every((relation) => isSystemRelation(nameOf(relation), ctes)) &&
    calledFunctions(node).every(isSystemFunction)
  );
}

function isSystemRelation({ schema, name }: Name, ctes: ReadonlySet<string>): boolean {
  if (schema !== null) return schema === 'pg_catalog' || schema === 'information_schema';
  return ctes.has(name) || name.startsWith('pg_');
}
