import { formatCount, formatDuration, plural } from '../format.ts';
import { trafficOfProfile } from '../load/profiled-shapes.ts';
import { type RecordedTraffic, recordShapes } from '../load/record-shapes.ts';
import type { Profile, ProfiledShapes } from '../model/profile-model.ts';
import type { Caveat } from '../model/report.ts';
import { openSession } from '../postgres/connection/connect.ts';
import type { Session } from '../postgres/connection/session.ts';
import { withSession } from '../postgres/session-helpers.ts';
import type { LoadPlan } from './plan.ts';
import type { CloneSetup } from './run-on-clone.ts';

/** Watches the target's transactions. @throws Error if nobody was at work. */
export async function recordTraffic(
  { context }: CloneSetup,
  { windowMs }: LoadPlan,
): Promise<RecordedTraffic> {
  const { target, run, audit, signal } = context;
  const recorded = await withSession(
    openSession(target.settings, { run, audit, signal, purpose: 'record traffic', readOnly: true }),
    (session) => recordShapes(session, windowMs, signal),
  );
  if (recorded.shapes.length > 0) return recorded;
  throw new Error(
    `nobody was seen at work on the target in ${formatDuration(windowMs)}, so there is no traffic to play: ` +
      'rehearse at a time of traffic, look longer (--load-window), or give a profile of production (--profile) or scripts (--load FILE.sql)',
  );
}

const EXISTING = 'SELECT name FROM unnest($1::text[]) AS name WHERE to_regclass(name) IS NOT NULL';

/** Takes the transactions of a profile, as far as the clone has their tables. @throws Error if it has none. */
export async function trafficOf(session: Session, shapes: ProfiledShapes): Promise<RecordedTraffic> {
  const names = shapes.kinds.flatMap(({ steps }) => steps.map(({ relation }) => relation));
  const rows = await session.query<{ name: string }>(EXISTING, [[...new Set(names)]]);
  const existing = new Set(rows.map(({ name }) => name));
  const recorded = trafficOfProfile(shapes, (name) => existing.has(name));
  if (recorded.shapes.length > 0) return recorded;
  throw new Error('the database has none of the tables that the transactions of the profile lock');
}

/** Where the transactions were seen, in a sentence. */
export function originOf(
  { shapes, perSecond, windowMs, readings }: RecordedTraffic,
  profile: Profile | null,
): string {
  const where = profile?.shapes ? `by the profile of ${profile.database.name}` : 'on the target';
  return (
    `${plural(shapes.length, 'kind')} of transactions seen ${where}, ${formatCount(Math.round(perSecond))} a second ` +
    `(${formatDuration(windowMs)}, ${plural(readings, 'reading')} of its locks)`
  );
}

/** What such a load cannot show. */
export function caveatsOf({ shapes, names }: RecordedTraffic): Caveat[] {
  const pairs = new Set(
    shapes.flatMap(({ unordered }) =>
      unordered.map((pair) => pair.map((oid) => names.get(oid) ?? String(oid)).join(' and ')),
    ),
  );
  const common: Caveat = {
    path: 'load',
    kind: 'estimate',
    reason:
      'the load takes the locks that the target’s transactions were seen to take, for as long; it sends none of their statements, ' +
      'and changes rows that are drawn by chance',
  };
  if (pairs.size === 0) return [common];
  const reason = `the order in which transactions lock ${[...pairs].slice(0, 5).join(', ')} was not seen`;
  return [common, { path: 'load', kind: 'estimate', reason }];
}
