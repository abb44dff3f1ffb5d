import type { BrokenFunction, EffectFacts, PublishedChange } from '../../model/effect-facts.ts';
import type { SchemaSection } from '../../model/report.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { displayName, lastPart, nameParts, withoutLastPart } from '../../postgres/sql/quote.ts';
import type { Retyped } from '../../schema/type-changes.ts';
import { ambiguousCalls, type Overloads, readOverloads } from './ambiguous-calls.ts';
import type { AskedEffects } from './asked-effects.ts';
import { type BodiesBefore, newlyBroken, readBodiesBefore } from './body-failures.ts';
import { brokenFunctions, goneNames, hasGone } from './broken-functions.ts';
import { changedDefinitions, type Definitions, readDefinitions } from './changed-definitions.ts';
import { type Indexes, lostIndexes, readIndexes } from './lost-indexes.ts';
import { type FormerGrants, grantsOnMade, madeRelations, readGrantsBefore } from './missing-grants.ts';
import { unfilteredTables } from './missing-policies.ts';
import { mayLackStatistics, unanalyzed } from './missing-statistics.ts';
import { refusedTypes } from './refused-types.ts';
import { type NextValues, readNextValues, sequencesSetBack } from './sequences-set-back.ts';
import { unlistedLabels } from './unlisted-labels.ts';
import { violatedConstraints } from './violated-constraints.ts';
import type { WriteTrials } from './write-trials.ts';

/** The state of the clone before the command, for comparison. */
export interface EffectsBefore {
  readonly definitions: Definitions;
  readonly bodies: BodiesBefore;
  readonly overloads: Overloads;
  readonly nextValues: NextValues;
  readonly indexes: Indexes;
  readonly grants: FormerGrants;
}

/** Reads from the clone, before the command. */
export async function readEffectsBefore(session: Session): Promise<EffectsBefore> {
  return {
    definitions: await readDefinitions(session),
    bodies: await readBodiesBefore(session),
    overloads: await readOverloads(session),
    nextValues: await readNextValues(session),
    indexes: await readIndexes(session),
    grants: await readGrantsBefore(session),
  };
}

/**
 * Reads from the clone what the command's changes mean for others, and asks only for what the changes suggest. What it writes, it
 * rolls back.
 */
export async function readEffects(
  session: Session,
  { section: schema, retyped }: { readonly section: SchemaSection; readonly retyped: readonly Retyped[] },
  { definitions, bodies, overloads, nextValues, indexes, grants }: EffectsBefore,
): Promise<Omit<EffectFacts, 'probes' | 'unapplied' | keyof AskedEffects | keyof WriteTrials>> {
  const statistics = mayLackStatistics(schema);
  const sent = subscriberChanges(schema);
  const redefined = changedDefinitions(definitions, await readDefinitions(session), schema);
  const made = await grantsOnMade(session, madeRelations(schema), grants);
  const tables = made.newRelations
    .filter(({ relation, isView }) => !isView && !grants.has(relation))
    .map(({ relation }) => relation);
  return {
    unanalyzed: statistics === null ? [] : await unanalyzed(session, statistics),
    brokenFunctions: await allBroken(session, { schema, redefined }, bodies),
    redefined,
    violated: await violatedConstraints(session, schema),
    published: sent.length > 0 ? await publishedChanges(session, sent) : [],
    refusedTypes: await refusedTypes(session, retyped),
    ambiguous: await ambiguousCalls(session, overloads),
    setBack: await sequencesSetBack(session, nextValues),
    unlisted: await unlistedLabels(session, schema),
    ...(await lostIndexes(session, indexes)),
    ...made,
    unfiltered: await unfilteredTables(session, tables),
  };
}

/** Functions that name something dropped or renamed, and others that the server took before the command and takes no longer. */
async function allBroken(
  session: Session,
  { schema, redefined }: { readonly schema: SchemaSection } & Pick<EffectFacts, 'redefined'>,
  before: BodiesBefore,
): Promise<BrokenFunction[]> {
  const gone = goneNames(schema);
  const naming = hasGone(gone) ? await brokenFunctions(session, gone) : [];
  const moved = redefined.filter(({ kind }) => kind === 'extension').map(({ relation }) => relation);
  const others = await newlyBroken(session, before, schema, moved);
  const known = new Set(naming.map((each) => each.function));
  return [...naming, ...others.filter((each) => !known.has(each.function))];
}

/** Changes that a subscriber of the table would have to make first, by the names after the command. */
export function subscriberChanges({ changes, renames }: SchemaSection): PublishedChange[] {
  const column = (what: PublishedChange['what']) => (object: string) => ({
    what,
    relation: withoutLastPart(object),
    column: lastPart(object),
  });
  const made = new Set(
    changes.filter(({ verb, kind }) => verb === 'create' && kind === 'table').map(({ object }) => object),
  );
  const columns = changes.filter(
    ({ kind, object }) => kind === 'column' && !made.has(withoutLastPart(object)),
  );
  return [
    ...columns.filter(({ verb }) => verb === 'create').map(({ object }) => column('column added')(object)),
    ...columns
      .filter(({ verb, sql }) => verb === 'alter' && / TYPE /.test(sql))
      .map(({ object }) => column('column retyped')(object)),
    ...renames.filter(({ kind }) => kind === 'column').map(({ to }) => column('column renamed')(to)),
    ...renames
      .filter(({ kind }) => kind === 'table')
      .map(({ to }) => ({ what: 'table renamed' as const, relation: to, column: null })),
  ];
}

// A publication with a list of columns sends no others; since version 15 the view shows which.
const PUBLISHED = `
select p.schemaname as schema, p.tablename as table, pg_catalog.array_agg(distinct p.pubname::pg_catalog.text) as publications,
  pg_catalog.jsonb_agg(pg_catalog.to_jsonb(p) -> 'attnames') as columns
from pg_catalog.pg_publication_tables p
where p.tablename = any ($1)
group by 1, 2`;

/** Keeps those changes that are published, with the names of the publications. */
export async function publishedChanges(
  session: Session,
  changes: readonly PublishedChange[],
): Promise<PublishedChange[]> {
  const names = [...new Set(changes.map(({ relation }) => nameParts(relation).at(-1)))];
  const rows = await session.query<{
    schema: string;
    table: string;
    publications: string[];
    columns: (string[] | null)[];
  }>(PUBLISHED, [names]);
  const published = new Map(rows.map((row) => [displayName(row.schema, row.table), row]));
  return changes.flatMap((change): PublishedChange[] => {
    const row = published.get(change.relation);
    const name = change.column === null ? null : (nameParts(change.column).at(-1) ?? '');
    if (!row?.columns.some((list) => list === null || name === null || list.includes(name))) return [];
    return [{ ...change, publications: row.publications }];
  });
}
