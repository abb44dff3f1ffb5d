import type { CatalogueFacts, RelationFacts } from '../../model/hazard-facts.ts';
import type { Profile, ProfiledRelation } from '../../model/profile-model.ts';
import { lastPart, withoutLastPart } from '../../postgres/sql/quote.ts';
import type { Growth } from './extrapolate.ts';

/** The sizes of relations here and there. */
export class Sizes {
  readonly #here: CatalogueFacts['relations'];
  readonly #there: ReadonlyMap<string, ProfiledRelation>;
  readonly #former: ReadonlyMap<string, string>;
  readonly #renamed: ReadonlyMap<string, string>;
  readonly #settings: Profile['settings'];

  constructor({ relations, renamed }: CatalogueFacts, profile: Profile) {
    this.#here = relations;
    this.#there = new Map(profile.relations.map((each) => [each.relation, each]));
    this.#renamed = renamed;
    this.#settings = profile.settings;
    this.#former = new Map([...renamed].map(([former, name]) => [name, former]));
  }

  /** @param relation its name before the command, or after it. */
  there(relation: string): ProfiledRelation | undefined {
    return this.#there.get(this.#former.get(relation) ?? relation);
  }

  isEmptyThere(relation: string): boolean {
    const { rows, sizeBytes } = this.there(relation) ?? {};
    return rows === 0 || sizeBytes === 0;
  }

  #facts(relation: string): RelationFacts | undefined {
    return this.#here.get(relation) ?? this.#here.get(this.#renamed.get(relation) ?? '');
  }

  relations(): Map<string, RelationFacts> {
    return new Map(
      [...this.#here].map(([name, facts]) => {
        const { sizeBytes, rows } = this.there(name) ?? {};
        if (sizeBytes == null) return [name, facts];
        const { unfilled: _, ...known } = facts;
        return [
          name,
          { ...known, sizeBytes, rows: rows ?? this.#rowsBySize(facts, sizeBytes), exact: false },
        ];
      }),
    );
  }

  /** Rows of a relation that production never analysed: as many in a byte as here. */
  #rowsBySize({ sizeBytes, rows }: RelationFacts, there: number): number | null {
    return sizeBytes && rows !== null ? Math.round((rows * there) / sizeBytes) : null;
  }

  missing(relations: readonly string[]): string[] {
    return relations.filter((name) => this.#facts(name) && this.there(name)?.sizeBytes == null);
  }

  /** By how much faster indexes are built there than here, because more processes do it; our server is taken to have the same settings. */
  speedup({ hereBytes, thereBytes }: Pick<Growth, 'hereBytes' | 'thereBytes'>): number {
    return speedOfBuild(thereBytes, this.#settings) / speedOfBuild(hereBytes, this.#settings);
  }

  /** Rows with a value in a column there, by the planner's statistics; null if it has none. */
  valuesThere(column: string): number | null {
    const { rows, planner } = this.there(withoutLastPart(column)) ?? {};
    const name = lastPart(column);
    const statistics = planner?.columns.find((each) => each.column === name);
    return rows == null || !statistics ? null : Math.round(rows * (1 - statistics.nullFraction));
  }

  growth(relations: readonly string[]): Omit<Growth, 'workRows' | 'speedup'> | null {
    const known = relations.filter((name) => this.there(name)?.sizeBytes != null);
    if (known.length === 0) return null;
    const sum = (figure: (name: string) => number | null | undefined) =>
      relations.reduce((total, name) => total + (figure(name) ?? 0), 0);
    const here = (name: string) => this.#facts(name);
    const rowsKnown = relations.every((name) => this.there(name)?.rows != null && here(name)?.rows != null);
    return {
      hereBytes: sum((name) => here(name)?.sizeBytes),
      thereBytes: sum((name) => this.there(name)?.sizeBytes ?? here(name)?.sizeBytes),
      hereRows: rowsKnown ? sum((name) => here(name)?.rows) : 0,
      thereRows: rowsKnown ? sum((name) => this.there(name)?.rows) : 0,
    };
  }
}

/** The server's defaults: min_parallel_table_scan_size, and what each process must have of maintenance_work_mem. */
const FIRST_WORKER_BYTES = 8 * 2 ** 20;
const PROCESS_KB = 32 * 1024;

/** Two processes build an index in 0.6 of the time of one (test/bench/results/profile.bench.ts.json): they share the disk and the memory. */
const GAIN = 0.7;

/**
 * Returns by how much faster than one process the server builds a b-tree index on a table of this size, by its rules for the number of
 * workers (plan_create_index_workers). Whether it has processors for them is not known.
 */
export function speedOfBuild(bytes: number, settings: Profile['settings']): number {
  const most = Number(settings.max_parallel_maintenance_workers ?? 0);
  const memoryKb = Number.parseInt(settings.maintenance_work_mem ?? '', 10);
  const bySize =
    bytes < FIRST_WORKER_BYTES ? 0 : 1 + Math.floor(Math.log(bytes / FIRST_WORKER_BYTES) / Math.log(3));
  const byMemory = Math.floor(memoryKb / PROCESS_KB) - 1;
  const workers = Math.max(0, Math.min(most, bySize, byMemory));
  return (1 + (Number.isNaN(workers) ? 0 : workers)) ** GAIN;
}
