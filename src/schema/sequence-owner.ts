import type { Fact, StableId } from './pg-delta.ts';

interface Owner {
  readonly schema: string;
  readonly table: string;
  readonly column: string;
}

/** The table and the column that a sequence belongs to, as that of a serial or identity column does; none for others. */
export function ownersOf({ id, payload }: Fact): StableId[] {
  if (id.kind !== 'sequence' || !isOwner(payload.ownedBy)) return [];
  const { schema, table, column } = payload.ownedBy;
  return [
    { kind: 'column', schema, table, name: column },
    { kind: 'table', schema, name: table },
  ];
}

function isOwner(value: unknown): value is Owner {
  return typeof value === 'object' && value !== null && 'column' in value;
}
