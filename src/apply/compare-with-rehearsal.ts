import type { Target } from '../database/target.ts';
import { inPhase } from '../events.ts';
import type { Report } from '../model/report.ts';
import { type CatalogueDigest, catalogueDigest, compareDigests } from '../proof/catalogue-digest.ts';
import {
  identityOf,
  type Rehearsal,
  receiptObjections,
  schemaReason,
} from '../rehearsal/receipts/receipt.ts';
import type { SchemaWatch } from '../schema/schema-watch.ts';
import type { ApplyPlan } from './apply-plan.ts';
import type { EnteredTarget } from './enter-target.ts';

/** Result of comparing the target with the one that was rehearsed on. */
export type RehearsalMatch =
  | { readonly matches: true; readonly digest: CatalogueDigest; readonly fingerprint: string }
  | {
      readonly matches: false;
      readonly reasons: string[];
      /** Changes of the target that a new rehearsal would take into account; empty if one does not help. */
      readonly outdated: readonly string[];
    };

/** Reads the target's catalogs and compares them with those of the rehearsal. */
export async function compareWithRehearsal(
  { run, target, logins, inside }: EnteredTarget,
  schema: SchemaWatch,
  rehearsal: Rehearsal,
  { command, emit, maxAgeMs }: ApplyPlan,
): Promise<RehearsalMatch> {
  if ('receipt' in rehearsal) {
    const identity = identityOf(target, logins, command);
    const expected = { ...identity, database: target.database.name, now: new Date(), maxAgeMs };
    const reasons = receiptObjections(rehearsal.receipt, expected);
    if (reasons.length > 0) return { matches: false, reasons, outdated: [] };
  }
  const settings = settingsSince(rehearsal.report, target);
  if (settings.length > 0)
    return {
      matches: false,
      reasons: changedSince(settings),
      outdated: 'receipt' in rehearsal ? [] : settings,
    };
  await inPhase(emit, 'before', () => schema.before(target.settings, { run }));
  const digest = await catalogueDigest(inside);
  const fingerprint = await schema.fingerprint();
  if ('receipt' in rehearsal) {
    const reason = await schemaReason(rehearsal.receipt, fingerprint, () => schema.hashes());
    if (reason !== undefined) return { matches: false, reasons: [reason], outdated: [] };
  } else {
    const outdated = changedSinceRehearsal(rehearsal, digest, fingerprint);
    if (outdated.length > 0) return { matches: false, reasons: changedSince(outdated), outdated };
  }
  return { matches: true, digest, fingerprint };
}

/** Names the initial settings of sessions that have changed since the rehearsal. */
function settingsSince({ target: { sessionSettings: before } }: Report, { database }: Target): string[] {
  const now = database.sessionSettings;
  if (before === undefined) return [];
  const names = [...new Set([...Object.keys(before), ...Object.keys(now)])].sort();
  return names.filter((name) => before[name] !== now[name]).map((name) => `the setting ${name}`);
}

/** Describes what changed in the target since an earlier digest of its catalogs; [] if nothing of the schema did. */
export async function changesSince(
  earlier: CatalogueDigest,
  { target, inside }: EnteredTarget,
  schema: SchemaWatch,
): Promise<string[]> {
  const written = compareDigests(earlier, await catalogueDigest(inside));
  if (written.length === 0) return [];
  const changes = await schema.describe(target.settings);
  return changedSince(changes.map(({ verb, kind, object }) => `${verb} ${kind} ${object}`));
}

/**
 * A statement that gives a relation a new file (TRUNCATE, REINDEX) changes the digest and leaves the schema as it was rehearsed,
 * so the digest counts only if the schema's fingerprint differs as well.
 */
function changedSinceRehearsal(
  { report, before }: Extract<Rehearsal, { before: unknown }>,
  digest: CatalogueDigest,
  fingerprint: string,
): string[] {
  if (before.digest === 'gone') return nameChanges(report, ['pg_database']);
  if (report.schema?.before === fingerprint) return [];
  const written = compareDigests(before.digest, digest);
  return written.length === 0 ? [] : nameChanges(report, written);
}

/** Names the changes that the rehearsal has seen, or else the catalogs that differ. */
function nameChanges({ target }: Report, written: readonly string[]): string[] {
  const named = target.changes.map(({ what }) => what);
  return named.length > 0 ? named : [`rows of ${written.join(', ')} were written`];
}

function changedSince(changes: readonly string[]): string[] {
  return changes.map((what) => `the target changed since it was rehearsed on: ${what}`);
}
