import { formatBytes, formatDuration, plural } from '../../format.ts';
import type { Report } from '../../model/report.ts';
import { identifier } from '../../postgres/sql/quote.ts';
import { describeStatements, type PlannedStatements } from '../../rehearsal/describe-plan.ts';
import { makeRehearsalPlan } from '../../rehearsal/plan.ts';
import type { RehearseOptions } from '../../rehearsal/rehearsal-settings.ts';
import { performRehearsal } from '../../rehearsal/rehearse.ts';
import { isolationText } from '../../report/isolation-phrases.ts';
import type { RunMode } from '../../settings.ts';
import type { OnlineExamination } from '../../swap/online/check-online.ts';
import { auditTo } from '../audit-file.ts';
import { confirmApply, confirmSwap, refuseUnasked } from '../confirm.ts';
import { EXIT, exitCodeOfReport } from '../exit-codes.ts';
import type { RunValues } from '../options/run-table.ts';
import { jsonText, visibleLines } from '../print.ts';
import { type ProgressDisplay, progress } from '../progress.ts';
import { checkWritable, publish } from '../publish.ts';
import { gatherRunOptions } from '../read-options.ts';
import type { SignalWatch } from '../signals.ts';

/** Rehearses, and does what the mode says after it. @returns the exit code. @throws SafemigrateError if there is nothing to report on */
export async function rehearseCommand(
  mode: RunMode,
  flags: Record<string, unknown>,
  command: readonly string[],
  signals: SignalWatch,
): Promise<number> {
  const values = await gatherRunOptions(flags, mode);
  for (const file of values.report ?? []) checkWritable(file);
  const display = progress(process.stderr);
  const options = {
    ...values,
    audit: auditTo(values.audit),
    command,
    commandStdout: values.format ? ('stderr' as const) : ('inherit' as const),
    emit: display.emit,
    signal: signals.abort,
    interrupts: signals.interrupts,
  };
  try {
    if (values.plan) {
      const planned = await describeStatements(makeRehearsalPlan(options));
      const online = values.online?.enabled ? await examineSwap(options) : undefined;
      const isText = values.format === undefined || values.format === 'text';
      const then = online ? afterOnlineRehearsal(online) : AFTER_REHEARSAL[mode];
      process.stdout.write(
        isText
          ? visibleLines(planText(planned, then, values.verbose ?? false))
          : jsonText({ plan: { ...planned, online } }),
      );
      return EXIT.passed;
    }
    const report = await runInMode(mode, options, values, display, signals.abort);
    display.finish();
    const exitCode = exitCodeOfReport(report, signals.received);
    await publish({ ...report, exitCode }, values);
    return exitCode;
  } finally {
    display.finish();
  }
}

async function runInMode(
  mode: RunMode,
  options: RehearseOptions,
  values: RunValues,
  display: ProgressDisplay,
  signal: AbortSignal,
): Promise<Report> {
  switch (mode) {
    case 'rehearse':
      return performRehearsal(makeRehearsalPlan(options));
    case 'apply': {
      refuseUnasked(values.yes ?? false);
      const { performApply } = await import('../../apply/perform-apply.ts');
      const { makeApplyPlan } = await import('../../apply/apply-plan.ts');
      return performApply(
        makeApplyPlan({
          ...options,
          confirm: (report) => confirmApply(report, values, display, signal),
        }),
      );
    }
    case 'swap': {
      const { performSwap } = await import('../../swap/perform-swap.ts');
      const { makeSwapPlan } = await import('../../swap/swap-plan.ts');
      return performSwap(
        makeSwapPlan({
          ...options,
          confirm: (report, closedMs, limits = []) =>
            confirmSwap(report, { closedMs, limits }, values, display, signal),
        }),
      );
    }
  }
}

function planText(
  { target, sent, next, isolation }: PlannedStatements,
  then: string,
  isVerbose: boolean,
): string {
  // Operations on files are shown as comments.
  const line = (sql: string) => `  ${sql.replace(/\s+/g, ' ').trim()}${sql.startsWith('--') ? '' : ';'}\n`;
  return [
    `Target: ${target.database} on ${target.host}:${target.port}, from ${target.source}\n\n`,
    ...(isVerbose
      ? [
          'Already sent, to find out the rest (reads only):\n',
          ...sent.map(({ database, sql }) => `  [${database}]${line(sql).slice(1)}`),
        ]
      : [
          `Already sent, to find out the rest: ${plural(sent.length, 'statement')} that only read (--verbose lists them)\n`,
        ]),
    '\nA rehearsal would go on with:\n',
    ...next.map(line),
    `\nBetween making and dropping the clone, the command runs there, ${isolationText(isolation)}.\nBefore and after it, the same reads as above are made again on the target,\n` +
      'and the catalogues and row counts of the clone are read. Of columns that the command\n' +
      'drops or cuts there, the values are counted on the target if the table is small.\n',
    then,
    'Nothing was changed.\n',
  ].join('');
}

async function examineSwap(options: RehearseOptions): Promise<OnlineExamination> {
  const { examineOnline } = await import('../../swap/online/check-online.ts');
  const { makeSwapPlan } = await import('../../swap/swap-plan.ts');
  return examineOnline(makeSwapPlan({ ...options, confirm: async () => false }));
}

/** The statements of an online swap that change something in the target's server, and its obstacles. */
function afterOnlineRehearsal({
  database,
  objections,
  cloneClosedMs,
  wayBack,
  walSpace,
}: OnlineExamination): string {
  const name = identifier(database);
  const space = walSpace
    ? `given up below ${formatBytes(walSpace.floorBytes)} free on the disk of pg_wal; now ${formatBytes(walSpace.freeBytes)}`
    : 'the disk of pg_wal cannot be seen from here';
  return [
    '\nIf the rehearsal passes, and shows that a clone can follow the target:\n',
    '  -- a clone follows the target from here on\n',
    '  CREATE PUBLICATION safemigrate_<run> FOR TABLE …; (and one with publish = insert)\n',
    "  SELECT pg_create_logical_replication_slot('safemigrate_<run>', 'pgoutput');\n",
    `  -- ${space}\n`,
    '  -- a client that measures: SELECT 1 again and again, right before and after the target is closed\n',
    `  -- closed for about ${formatDuration(cloneClosedMs)}, all sessions terminated\n`,
    `  ALTER DATABASE ${name} ALLOW_CONNECTIONS false;\n`,
    `  CREATE DATABASE … TEMPLATE ${name};\n`,
    `  ALTER DATABASE ${name} ALLOW_CONNECTIONS true;\n`,
    '  -- in the clone: the command, --verify, CREATE SUBSCRIPTION; then both are compared\n',
    ...(wayBack ? ['  -- in the clone: the same publications and slot, as safemigrate_<run>_back\n'] : []),
    '  -- closed for a moment, all sessions terminated\n',
    `  ALTER DATABASE ${name} ALLOW_CONNECTIONS false;\n`,
    `  ALTER DATABASE ${name} RENAME TO …; ALTER DATABASE … RENAME TO ${name};\n`,
    ...(wayBack
      ? ['  -- in the original, with CONNECTION LIMIT 0: CREATE SUBSCRIPTION safemigrate_<run>_back …\n']
      : []),
    ...(objections.length === 0 ? [] : ['\nWhat prevents it:\n']),
    ...objections.map((each) => `  - ${each}\n`),
  ].join('');
}

/** Effect of each mode on the target once the rehearsal has passed, for its plan. */
const AFTER_REHEARSAL: Readonly<Record<RunMode, string>> = {
  rehearse: '',
  apply: '\nIf the rehearsal passes, the command runs on the target itself, with guardrails.\n',
  swap:
    '\nIf the rehearsal passes, the target is closed, the command runs on a clone of it,\n' +
    'and the clone gets its name.\n',
};
