import type { DefinitionFacts } from '../model/hazard-facts.ts';
import type { SchemaSection } from '../model/report.ts';
import type { Session } from '../postgres/connection/session.ts';
import type { StableId } from './pg-delta.ts';
import {
  ENFORCEMENT,
  INDEX_PROPERTY,
  LEFT_OUT,
  PARTITION_TRIGGER,
  PLACEMENT,
  PROBES,
  SEQUENCE_VALUE,
  UNKNOWN_OPTION,
} from './unmodeled-probes.ts';

/**
 * Objects that pg-delta does not model, read by ourselves: content by kind and name, never by OID, so that databases can be
 * compared with each other.
 */
export type Unmodeled = ReadonlyMap<string, ReadonlyMap<string, string>>;

/** Kinds that belong to one database and to its rows, not to the schema that two databases may share. */
const NOT_SCHEMA = new Set([
  ...['database', 'database setting', 'large object', SEQUENCE_VALUE],
  UNKNOWN_OPTION,
]);
const UNREADABLE = 'could not be read';

const SAVEPOINT = 'SAVEPOINT probe';
const BACK = 'ROLLBACK TO SAVEPOINT probe';

interface Found {
  readonly kind?: string;
  readonly name: string;
  readonly content: string | null;
}

/** Must be called inside a transaction: a probe that fails is rolled back and marked as unreadable. */
export async function readUnmodeled(session: Session): Promise<Unmodeled> {
  const found = new Map<string, ReadonlyMap<string, string>>();
  await session.query(SAVEPOINT);
  const together = await unlessRefused(session, () => session.queryAll<Found>(PROBES.map(({ sql }) => sql)));
  for (const [index, { kind, sql }] of PROBES.entries()) {
    const kinds = [kind].flat();
    const objectsOf = new Map(kinds.map((each) => [each, new Map<string, string>()]));
    // If the server refused one of them, each is tried alone.
    const rows = together?.[index] ?? (await unlessRefused(session, () => session.query<Found>(sql)));
    for (const row of rows ?? []) objectsOf.get(row.kind ?? kinds[0] ?? '')?.set(row.name, row.content ?? '');
    for (const [each, objects] of objectsOf) found.set(each, rows ? objects : new Map([[UNREADABLE, '']]));
  }
  return found;
}

async function unlessRefused<T>(session: Session, ask: () => Promise<T>): Promise<T | undefined> {
  try {
    return await ask();
  } catch (error) {
    if (error instanceof Error && !('severity' in error)) throw error;
    await session.query(BACK);
    return undefined;
  }
}

/** The part of the schema's content fingerprint that pg-delta does not see. */
export function unmodeledContent(unmodeled: Unmodeled): string[] {
  return [...unmodeled]
    .filter(([kind]) => !NOT_SCHEMA.has(kind))
    .flatMap(([kind, objects]) =>
      [...objects].map(([name, content]) => JSON.stringify([kind, name, content])),
    )
    .sort();
}

/** The options of columns whose meaning is not known, sorted by name. */
export function unknownColumnOptions(unmodeled: Unmodeled): string[] {
  return [...(unmodeled.get(UNKNOWN_OPTION)?.keys() ?? [])].filter((name) => name !== UNREADABLE).sort();
}

/** Tables that publications leave out. pg-delta takes them for tables that are sent. */
export function leftOutOfPublications(unmodeled: Unmodeled): StableId[] {
  const found = unmodeled.get(LEFT_OUT) ?? new Map<string, string>();
  return found.has(UNREADABLE) ? [] : [...found.values()].map((id) => JSON.parse(id) as StableId);
}

const LISTED = 20;

const PROPERTY = ['set', 'reset'] as const;
/** Words for the appearance and disappearance of kinds that are read only if they differ from the default. */
const WORDS: Readonly<Record<string, readonly [came: string, went: string]>> = {
  [ENFORCEMENT]: ['switched off', 'switched on'],
  [PARTITION_TRIGGER]: ['switched off', 'switched on'],
  'column storage': PROPERTY,
  'column statistics target': PROPERTY,
  [INDEX_PROPERTY]: PROPERTY,
  [PLACEMENT]: PROPERTY,
  'table of a type': PROPERTY,
  [LEFT_OUT]: ['left out', 'sent again'],
  'sequences of a publication': ['sent', 'not sent any more'],
  'option of a subscription': PROPERTY,
  'database setting': PROPERTY,
  database: PROPERTY,
};

/** Finds the properties that hazards depend on, among those which pg-delta does not see. */
export function changedProperties(
  before: Unmodeled,
  after: Unmodeled,
): Pick<DefinitionFacts, 'moved' | 'unenforced' | 'disabledInPartitions'> {
  const came = (kind: string) => {
    const then = before.get(kind);
    const now = [...(after.get(kind)?.keys() ?? [])];
    return then?.has(UNREADABLE) ? [] : now.filter((name) => name !== UNREADABLE && !then?.has(name));
  };
  return {
    moved: came(PLACEMENT),
    unenforced: came(ENFORCEMENT),
    disabledInPartitions: came(PARTITION_TRIGGER),
  };
}

/** Describes the differences in words: `created`, `dropped`, `changed`, or that they could not be compared. */
export function compareUnmodeled(before: Unmodeled, after: Unmodeled): SchemaSection['unmodeled'] {
  const kinds = PROBES.flatMap(({ kind }) => kind).filter((kind) => kind !== UNKNOWN_OPTION);
  return kinds.flatMap((kind) => {
    const [then, now] = [before.get(kind) ?? new Map(), after.get(kind) ?? new Map()];
    if (then.has(UNREADABLE) || now.has(UNREADABLE))
      return [{ kind, detail: 'could not be compared: not readable' }];
    const details: string[] = [];
    const [came, went] = WORDS[kind] ?? ['created', 'dropped'];
    // A sequence that was created or dropped is a change of its own, or of the column that it belongs to.
    if (kind !== SEQUENCE_VALUE) {
      for (const name of now.keys()) if (!then.has(name)) details.push(`${name} ${came}`);
      for (const name of then.keys()) if (!now.has(name)) details.push(`${name} ${went}`);
    }
    for (const [name, content] of now)
      if (then.has(name) && then.get(name) !== content)
        details.push(changed(kind, name, then.get(name), content));
    if (details.length > LISTED) return [{ kind, detail: `${details.length} changed` }];
    return details.map((detail) => ({ kind, detail }));
  });
}

function changed(kind: string, name: string, then: string | undefined, now: string): string {
  if (kind !== SEQUENCE_VALUE) return `${name} changed`;
  if (!then) return `${name} used for the first time`;
  return now === '' ? `${name} restarted` : `${name} went from ${then} to ${now}`;
}
