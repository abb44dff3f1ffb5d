import type { SchemaSection } from '../../model/report.ts';

/** Names that meant something before the command and no longer do. */
export interface GoneNames {
  readonly relations: readonly GoneName[];
  readonly columns: readonly GoneName[];
  readonly functions: readonly GoneName[];
  readonly types: readonly GoneName[];
}

/** As the catalogues hold it, without quotes. */
export interface GoneName {
  /** The schema; of a column, its table. */
  readonly within: string;
  readonly name: string;
}

const RELATIONS = ['table', 'view', 'materialized view', 'foreign table'];
const FUNCTIONS = ['function', 'procedure', 'aggregate'];
const TYPES = ['type', 'domain', ...RELATIONS];

/** Lists the names of dropped and renamed objects. An object that was made again under its name is not gone. */
export function goneNames({ changes, renames }: SchemaSection): GoneNames {
  const made = new Set(changes.filter(({ verb }) => verb === 'create').map(({ object }) => object));
  const gone = [
    ...changes.filter(({ verb, object }) => verb === 'drop' && !made.has(object)),
    ...renames.map(({ kind, from }) => ({ kind, object: from })),
  ];
  const named = (kinds: readonly string[]) =>
    gone.filter(({ kind }) => kinds.includes(kind)).map(({ object }) => goneName(object));
  return {
    relations: named(RELATIONS),
    columns: named(['column']),
    functions: named(FUNCTIONS),
    types: named(TYPES),
  };
}

export function hasGone(names: GoneNames): boolean {
  return Object.values(names).some((list: readonly GoneName[]) => list.length > 0);
}

/** Returns `public` and `f` for `public.f(integer)`. */
function goneName(object: string): GoneName {
  const parts = partsOf(object.replace(/\((?:[^"]|"(?:[^"]|"")*")*\)$/s, ''));
  return { within: parts.at(-2) ?? '', name: parts.at(-1) ?? '' };
}

/** Splits a qualified name as it is written, into parts as the catalogues hold them. */
export function partsOf(name: string): string[] {
  return (name.match(/"(?:[^"]|"")*"|[^."]+/g) ?? []).map((part) =>
    part.startsWith('"') ? part.slice(1, -1).replaceAll('""', '"') : part.toLowerCase(),
  );
}
