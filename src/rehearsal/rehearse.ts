import type { Report } from '../model/report.ts';
import { untouched } from '../observe/lost-connection.ts';
import type { TargetState } from '../observe/target-watch.ts';
import { toolVersion } from '../package.ts';
import { openSchemaWatch, type SchemaWatch } from '../schema/schema-watch.ts';
import type { Scope } from '../scope.ts';
import type { Stop } from '../stop.ts';
import type { Sections } from './on-clone.ts';
import { prepare } from './prepare.ts';
import type { ReceiptIdentity } from './receipts/receipt.ts';
import type { RehearseOptions } from './run-options.ts';
import { withScope } from './with-scope.ts';

/**
 * Rehearses a migration command on a clone of its target, and cleans up in every ending.
 * @throws SafemigrateError when there is nothing to report on: the command was never started, or the server was lost.
 */
export async function rehearse(options: RehearseOptions): Promise<Report> {
  const { report, identity } = await rehearseAndRemember(options);
  if (options.receipt !== undefined) {
    const { keepReceipt } = await import('./receipts/receipt-file.ts');
    await keepReceipt(report, identity, options);
  }
  return redactIfAsked(report, options);
}

/** The report as its reader gets it: comparisons need the values, so redaction is the last step. */
export async function redactIfAsked(report: Report, { redact = false }: RehearseOptions): Promise<Report> {
  if (!redact) return report;
  const { redactReport } = await import('../observe/redact-report.ts');
  return redactReport(report);
}

/** What an apply or a swap needs to know of the rehearsal before it. @internal */
export interface Remembered {
  readonly report: Report;
  /** The target as it was before the rehearsal. */
  readonly before: TargetState;
  readonly identity: ReceiptIdentity;
}

/** @internal */
export async function rehearseAndRemember(options: RehearseOptions): Promise<Remembered> {
  const startedAt = new Date();
  const { result, cleanup } = await withScope(options, (scope, stop) => rehearseWithin(scope, stop, options));
  const { run, before, identity, ...sections } = result;
  const report: Report = {
    version: 1,
    run: {
      id: run,
      startedAt: startedAt.toISOString(),
      finishedAt: new Date().toISOString(),
      mode: 'rehearse',
      tool: { name: 'safemigrate', version: toolVersion() },
    },
    ...sections,
    cleanup,
  };
  return { report, before, identity };
}

async function rehearseWithin(scope: Scope, stop: Stop, options: RehearseOptions): Promise<Sections> {
  const schema = await startSchemaReader(scope, options);
  const load = () => import('./on-clone.ts');
  // A failure is told where it is waited for.
  const loadEarly = () => void load().catch(() => {});
  const prepared = await untouched(stop, () => prepare(scope, stop, options, loadEarly));
  const { rehearseOnClone } = await load();
  return rehearseOnClone(prepared, { scope, stop, schema }, options);
}

/** First of all: it loads while the server is looked at. */
function startSchemaReader(scope: Scope, { audit }: RehearseOptions): Promise<SchemaWatch> {
  return scope.own(
    'schema reader',
    () => openSchemaWatch(audit),
    async (schema) => schema?.close(),
  );
}
