import { isBookkeeping } from '../../model/migration-tables.ts';
import type { FurtherRunSection, SchemaChange, SchemaSection } from '../../model/report.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { catalogueDigest, compareDigests } from '../../proof/catalogue-digest.ts';
import type { SchemaWatch } from '../../schema/schema-watch.ts';

export type SchemaResult = Pick<FurtherRunSection, 'schemaEqual' | 'differences'>;

/** Compares the clone's schema, after a further command, with the one that the command is to lead to. */
export type Aim = (session: Session) => Promise<SchemaResult>;

/** The schema before the migration. */
export function aimAtBefore(schema: Pick<SchemaWatch, 'after'>): Aim {
  return async () => {
    const { section } = await schema.after();
    return section.before === section.after ? EQUAL : differing(section.changes, section);
  };
}

/**
 * The schema as it is now, after the migration. A digest of the catalogues tells within milliseconds that nothing was
 * written at all; only where something was, schemas are read and compared again.
 * @param first what the migration did.
 */
export async function aimAtAfter(
  session: Session,
  schema: Pick<SchemaWatch, 'after'>,
  first: SchemaSection | null,
): Promise<Aim> {
  const digest = await catalogueDigest(session);
  return async (later) => {
    if (compareDigests(digest, await catalogueDigest(later)).length === 0) return EQUAL;
    if (first === null) return { schemaEqual: null, differences: [] };
    const { section } = await schema.after();
    return differencesOfSchemas(first, section);
  };
}

/** Compares what another run left in another clone with what the first run has left in its own. Both began with the same schema. */
export function differencesOfSchemas(first: SchemaSection, other: SchemaSection): SchemaResult {
  if (first.after === other.after) return EQUAL;
  const added = without(other.changes, first.changes);
  return differing([...added, ...without(first.changes, other.changes).map(undo)], other);
}

const EQUAL: SchemaResult = { schemaEqual: true, differences: [] };

/** Both are changes against the schema before the migration. */
function without(changes: readonly SchemaChange[], others: readonly SchemaChange[]): SchemaChange[] {
  const known = new Set(others.map(({ verb, object, sql }) => JSON.stringify([verb, object, sql])));
  return changes.filter(({ verb, object, sql }) => !known.has(JSON.stringify([verb, object, sql])));
}

const OPPOSITE: Partial<Record<SchemaChange['verb'], SchemaChange['verb']>> = {
  create: 'drop',
  drop: 'create',
};

function undo(change: SchemaChange): SchemaChange {
  return { ...change, verb: OPPOSITE[change.verb] ?? 'alter' };
}

const WORDS: Partial<Record<SchemaChange['verb'], string>> = { create: 'is there too', drop: 'is missing' };

function differing(
  changes: readonly SchemaChange[],
  { unmodeled }: Pick<SchemaSection, 'unmodeled'>,
): SchemaResult {
  const told = new Map<string, boolean>();
  for (const { verb, kind, object } of changes)
    told.set(`${kind} ${object} ${WORDS[verb] ?? 'differs'}`, isBookkeeping(object));
  for (const { kind, detail } of unmodeled) told.set(`${kind} ${detail}`, false);
  if (told.size === 0) told.set('the schemas differ in what has no name', false);
  const differences = [...told].map(([what, bookkeeping]) => ({ what, bookkeeping }));
  return { schemaEqual: false, differences };
}
