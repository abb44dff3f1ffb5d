import { inPhase } from '../events.ts';
import type { Report } from '../model/report.ts';
import { receiptObjections, schemaReason } from '../rehearsal/receipts/receipt.ts';
import type { Rehearsal } from '../rehearsal/receipts/receipt-file.ts';
import { identityOf } from '../rehearsal/receipts/receipt-file.ts';
import { ignore } from '../rehearsal/slices.ts';
import { withScope } from '../rehearsal/with-scope.ts';
import { catalogueDigest, compareDigests } from '../schema/catalogue-digest.ts';
import { openSchemaWatch } from '../schema/schema-watch.ts';
import type { ApplyOptions } from './apply-options.ts';
import { type Applied, inReport, type Result, refusedApply, standsAgainst } from './apply-section.ts';
import { enterTarget } from './enter.ts';
import { type Life, runOnTarget } from './run-on-target.ts';

const DAY_MS = 86_400_000;

/** Runs the command on the target, if everything that was rehearsed still holds. */
export async function applyRehearsed(
  rehearsal: Rehearsal,
  options: ApplyOptions,
  startedAt: Date,
): Promise<Applied> {
  const against = standsAgainst(rehearsal.report);
  if (against !== undefined && options.force === undefined) {
    const section = refusedApply(rehearsal, options, [against]);
    return { report: inReport(rehearsal.report, { section, caveats: [] }, startedAt), outdated: [] };
  }
  const { result, cleanup } = await withScope(options, (scope, stop) =>
    applyWithin({ scope, stop }, rehearsal, options),
  );
  const report = inReport(rehearsal.report, result, startedAt, cleanup);
  return { report, outdated: result.outdated ?? [] };
}

async function applyWithin(life: Life, rehearsal: Rehearsal, options: ApplyOptions): Promise<Result> {
  const { report } = rehearsal;
  const { emit = ignore, audit } = options;
  const entered = await enterTarget(life.scope, life.stop, options);
  const { run, target, turn } = entered;
  const refuse = (reasons: string[], more: Partial<Result> = {}): Result => ({
    ...{ section: refusedApply(rehearsal, options, reasons), caveats: [], run },
    ...more,
  });
  const schema = await life.scope.own(
    'schema reader',
    () => openSchemaWatch(audit),
    async (opened) => opened?.close(),
  );
  if ('receipt' in rehearsal) {
    const { maxAgeMs = DAY_MS } = options;
    const asked = {
      ...identityOf(target, entered.logins, options),
      database: target.database.name,
      now: new Date(),
      maxAgeMs,
    };
    const reasons = receiptObjections(rehearsal.receipt, asked);
    if (reasons.length > 0) return refuse(reasons);
  }
  await inPhase(emit, 'before', () => schema.before(target.settings, { run }));
  const digest = await catalogueDigest(turn);
  const fingerprint = await schema.fingerprint();
  if ('receipt' in rehearsal) {
    const reason = schemaReason(rehearsal.receipt, fingerprint);
    if (reason !== undefined) return refuse([reason]);
  } else if (rehearsal.before.digest === 'gone' || report.schema?.before !== fingerprint) {
    // What gives a relation a new file (TRUNCATE, REINDEX) moves the digest, and leaves the schema as it was rehearsed.
    const before = rehearsal.before.digest;
    const written = before === 'gone' ? ['pg_database'] : compareDigests(before, digest);
    const outdated = namesOf(report, written);
    if (written.length > 0) return refuse(changedSince(outdated), { outdated });
  }
  if (!(await options.confirm(report))) return refuse(['it was not confirmed']);
  life.stop.signal.throwIfAborted();
  const meanwhile = compareDigests(digest, await catalogueDigest(turn));
  if (meanwhile.length > 0) {
    const changes = await schema.describe(target.settings);
    if (changes.length > 0)
      return refuse(changedSince(changes.map(({ verb, kind, object }) => `${verb} ${kind} ${object}`)));
  }
  const ran = await life.stop.pausedDuring(() =>
    runOnTarget(life, entered, { rehearsal, options, schema, fingerprint }),
  );
  return { ...ran, run };
}

/** By the names that the rehearsal found, where it saw the change; else by the catalogues. */
function namesOf(report: Report, written: readonly string[]): string[] {
  const named = report.target.changes.map(({ what }) => what);
  return named.length > 0 ? named : [`rows of ${written.join(', ')} were written`];
}

function changedSince(changes: readonly string[]): string[] {
  return changes.map((what) => `the target changed since it was rehearsed on: ${what}`);
}
