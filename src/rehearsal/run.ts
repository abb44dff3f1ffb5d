import type { Identity } from '../apply/receipt.ts';
import { SafemigrateError } from '../errors.ts';
import { formatDuration } from '../format.ts';
import type { Report, SwapSection } from '../model/report.ts';
import { untouched } from '../observe/lost-connection.ts';
import type { TargetState } from '../observe/target-watch.ts';
import { toolVersion } from '../package.ts';
import { openSchemaWatch, type SchemaWatch } from '../schema/schema-watch.ts';
import type { Cleanup, Scope } from '../scope.ts';
import type { Stop } from '../stop.ts';
import type { Sections } from './on-clone.ts';
import { prepare } from './prepare.ts';
import type { ApplyOptions, RehearseOptions, SwapOptions } from './run-options.ts';
import { withScope } from './with-scope.ts';

/**
 * Rehearses a migration command on a clone of its target, and cleans up in every ending.
 * @throws SafemigrateError when there is nothing to report on: the command was never started, or the server was lost.
 */
export async function rehearse(options: RehearseOptions): Promise<Report> {
  const { report, identity } = await rehearseAndRemember(options);
  if (options.receipt !== undefined) {
    const { keepReceipt } = await import('../apply/receipt-file.ts');
    await keepReceipt(report, identity, options);
  }
  return shown(report, options);
}

/** Everything is found out and compared as it is; what is not to be told is taken out at the end. */
async function shown(report: Report, { redact = false }: RehearseOptions): Promise<Report> {
  if (!redact) return report;
  const { redactReport } = await import('../observe/redact-report.ts');
  return redactReport(report);
}

/** What an apply or a swap needs to know of the rehearsal before it. */
interface Remembered {
  readonly report: Report;
  /** The target as it was before the rehearsal. */
  readonly before: TargetState;
  readonly identity: Identity;
}

async function rehearseAndRemember(options: RehearseOptions): Promise<Remembered> {
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

/**
 * Rehearses; then closes the target, clones it, runs the command on the clone, and gives the clone the target's name in one
 * transaction. What fails before that leaves the target as it was, and open.
 * @throws SafemigrateError what rehearse() throws; `TARGET_CHANGED` where the target could not be opened again.
 */
export async function swap(options: SwapOptions): Promise<Report> {
  if (options.from !== undefined)
    throw new SafemigrateError(
      'USAGE',
      '--from rehearses on a dump: there is no target that could be swapped.',
    );
  return shown(await rehearseAndSwap(options), options);
}

async function rehearseAndSwap(options: SwapOptions): Promise<Report> {
  const { exchangeTarget, FOR_EXCHANGE, reasonsAgainst, refused } = await import('../swap/exchange.ts');
  const { report, before } = await rehearseAndRemember(options);
  const inSwap = (section: SwapSection): Report => ({
    ...report,
    run: { ...report.run, mode: 'swap', finishedAt: new Date().toISOString() },
    swap: section,
  });
  if (!report.verdict.pass) return inSwap(refused(['the rehearsal did not pass']));
  const expectedMs = report.clone.durationMs + report.command.durationMs;
  if (expectedMs > (options.maxClosedMs ?? Number.POSITIVE_INFINITY))
    return inSwap(refused([tooLong(expectedMs)]));
  // The target may change while a person thinks; what stands against it is looked for afterwards.
  if (!(await options.confirm(report))) return inSwap(refused(['it was not confirmed']));
  // Of the target itself a clone is made, wherever the rehearsal was.
  const { rehearsalUrl: _, ...here } = options;
  const { result, cleanup } = await withScope(options, async (scope, stop) => {
    const prepared = await prepare(scope, stop, { ...here, ...FOR_EXCHANGE });
    const reasons = await reasonsAgainst(prepared, before, options);
    if (reasons.length > 0) return refused(reasons);
    return exchangeTarget(prepared, { scope, stop }, options);
  });
  return withCleanup(inSwap(result), cleanup);
}

/** Beyond these a target that changes all the time is not rehearsed on again. */
const REHEARSALS = 3;

/**
 * Rehearses, and runs the command on the target itself where the rehearsal passed and still holds. A target that changed
 * meanwhile is rehearsed on again. A receipt stands for the rehearsal.
 * @throws SafemigrateError what rehearse() throws; `REFUSED`; `TARGET_CHANGED` where it is not known what became of the command.
 */
export async function apply(options: ApplyOptions): Promise<Report> {
  const startedAt = new Date();
  const { applyRehearsed } = await import('../apply/apply-rehearsed.ts');
  const { refuseEarly } = await import('../apply/refuse-early.ts');
  await refuseEarly(options);
  if (options.receipt !== undefined) {
    const { readRehearsal } = await import('../apply/receipt-file.ts');
    const rehearsal = await readRehearsal(options.receipt, options);
    return shown((await applyRehearsed(rehearsal, options, startedAt)).report, options);
  }
  for (let rehearsals = 1; ; rehearsals++) {
    const rehearsal = await rehearseAndRemember(options);
    const { report, outdated } = await applyRehearsed(rehearsal, options, startedAt);
    if (outdated.length === 0 || rehearsals === REHEARSALS) return shown(report, options);
    const message = `the target changed while it was rehearsed on (${outdated.join(', ')}): rehearsing again`;
    options.emit?.({ type: 'notice', message });
  }
}

function tooLong(expectedMs: number): string {
  return `the target would be closed for about ${formatDuration(expectedMs)}, going by the rehearsal, and --max-stall allows less`;
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

function withCleanup(report: Report, { done, failed }: Cleanup): Report {
  const { cleanup } = report;
  return { ...report, cleanup: { done: [...cleanup.done, ...done], failed: [...cleanup.failed, ...failed] } };
}

/** First of all: it loads while the server is looked at. */
function startSchemaReader(scope: Scope, { audit }: RehearseOptions): Promise<SchemaWatch> {
  return scope.own(
    'schema reader',
    () => openSchemaWatch(audit),
    async (schema) => schema?.close(),
  );
}
