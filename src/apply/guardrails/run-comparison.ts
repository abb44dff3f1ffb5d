import { LocalNames, type LocalReading, likenessOf } from '../../postgres/sql/local-names.ts';
import { type ParsedStatement, parseText } from '../../postgres/sql/parse.ts';
import type { Rehearsed } from '../../rehearsal/receipts/rehearsed.ts';
import { DefinitionPoints } from './definition-points.ts';
import { type Comparing, diverges, textKeyOf } from './divergence.ts';

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
  /** Where the rehearsal's definitions stood, without their values (definition-points.ts). */
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
    const node = parsed?.node ?? null;
    const local = this.#names.read({ session: sent.session, sql, node });
    const point = local?.own ? undefined : this.#points.next(sent);
    if (!diverges(this.#rehearsed, { sql, node }, this.#comparing)) return 'rehearsed';
    if (local && this.#isKnown(local)) return 'rehearsed';
    return point !== undefined && this.#knownPoints.has(point) ? 'other values' : 'not rehearsed';
  }

  #learn(statement: SentStatement, points: DefinitionPoints, names: LocalNames): void {
    const { session, sql, parsed } = statement;
    const local = names.read({ session, sql, node: parsed?.node ?? null });
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
