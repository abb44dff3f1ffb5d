import { formatDuration, plural } from '../../format.ts';
import type { Caveat } from '../../model/report.ts';
import type { CloneContext } from '../method.ts';
import type { DestinationKind } from './destination.ts';
import type { DumpFacts } from './dump-facts.ts';

/** Describes for the report what the dump did to the target's server. */
export function touches(context: CloneContext, kind: DestinationKind, transferMs: number): string[] {
  const time = formatDuration(transferMs);
  const restored = `a copy was restored on its server, through WAL, in ${time}`;
  const dumped =
    `pg_dump held a snapshot (nothing newer was vacuumed away) and ACCESS SHARE locks on all tables, which DDL waits ` +
    `for, for up to ${time}`;
  return [...(context.source ? [] : [dumped]), ...(kind === 'same-server' ? [restored] : [])];
}

/** Describes how a restored copy differs from the target. */
export function dumpCaveats(
  { options, source }: CloneContext,
  { subscriptions }: DumpFacts,
  { missing, sameLocale }: { missing: readonly string[]; sameLocale: boolean },
): Caveat[] {
  const reasons = [
    'the clone was restored from a dump: its tables and indexes are without bloat, and smaller than those of the target',
  ];
  if (source) reasons.push('it was dumped from a standby, which may be behind');
  if (missing.length > 0)
    reasons.push(
      `its objects belong to the role that created it, and it has no privileges of others: ${missing.join(', ')} ` +
        'cannot be used there',
    );
  if (!sameLocale)
    reasons.push("the server does not know the target's locale: text is sorted in another way");
  if (subscriptions > 0) reasons.push(`it is without ${plural(subscriptions, 'subscription')} of the target`);
  return [
    ...reasons.map((reason): Caveat => ({ path: 'clone', kind: 'estimate', reason })),
    ...rowsLeftOut(options).map((reason): Caveat => ({ path: 'clone.sizeBytes', kind: 'estimate', reason })),
  ];
}

function rowsLeftOut({ schemaOnly, excludeTableData }: CloneContext['options']): string[] {
  const tables = excludeTableData.join(', ');
  return [
    ...(schemaOnly ? ['its tables have no rows (--schema-only): times and data tell nothing'] : []),
    ...(tables === '' ? [] : [`tables like ${tables} have no rows (SAFEMIGRATE_EXCLUDE_TABLE_DATA)`]),
  ];
}
