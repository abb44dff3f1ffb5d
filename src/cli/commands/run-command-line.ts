import { appendFileSync } from 'node:fs';
import { apply } from '../../apply/perform-apply.ts';
import { messageOf, SafemigrateError } from '../../errors.ts';
import type { RunEvent } from '../../events.ts';
import { formatDuration } from '../../format.ts';
import type { Report } from '../../model/report.ts';
import type { Audit } from '../../postgres/connection/audit.ts';
import type { PlannedStatements } from '../../rehearsal/describe-plan.ts';
import { rehearse } from '../../rehearsal/rehearse.ts';
import { formatOfFile } from '../../report/formats.ts';
import { rendererOf } from '../../report/render.ts';
import { swap } from '../../swap/perform-swap.ts';
import { toApply } from '../apply-plan.ts';
import { confirm } from '../confirm.ts';
import { pastApplies } from '../earlier-applies.ts';
import { exitCodeOfReport } from '../exit-codes.ts';
import { RUN_OPTIONS, type Values } from '../options-table.ts';
import { policyOf } from '../policy-options.ts';
import { visibleLines } from '../print.ts';
import { progress } from '../progress.ts';
import { checkWritable, publish } from '../publish.ts';
import { gatherOptions } from '../read-options.ts';
import type { SignalWatch } from '../signals.ts';
import { styleOf } from '../style.ts';

type Options = Values<typeof RUN_OPTIONS>;

/** The default command. @returns the exit code. @throws SafemigrateError where there is nothing to report on. */
export async function rehearseCommand(
  flags: Record<string, unknown>,
  command: readonly string[],
  signals: SignalWatch,
): Promise<number> {
  const options = await gatherOptions(RUN_OPTIONS, flags);
  for (const file of options.report ?? []) checkWritable(file);
  const style = styleOf({ stream: process.stderr, env: process.env });
  const display = progress(process.stderr, style);
  const settings = {
    ...toRehearse(options),
    command,
    pastApplies,
    commandStdout: options.format ? ('stderr' as const) : ('inherit' as const),
    emit: (event: RunEvent) => {
      if (event.type === 'idle') loadRenderers(options);
      display.emit(event);
    },
    signal: signals.abort,
    interrupts: signals.interrupts,
  };
  try {
    if (options.plan) {
      const { planRehearsal } = await import('../../rehearsal/describe-plan.ts');
      process.stdout.write(visibleLines(planText(await planRehearsal(settings))));
      return 0;
    }
    const report = options.apply
      ? await apply({ ...settings, ...toApply(options, display, signals.abort) })
      : options.swap
        ? await swap({ ...settings, ...toSwap(options, signals.abort) })
        : await rehearse(settings);
    display.finish();
    await publish(report, options);
    return exitCodeOfReport(report, signals.received);
  } finally {
    display.finish();
  }
}

/** What is needed at the end, where a failure would be told. */
function loadRenderers({ report = [], format = 'text' }: Options): void {
  const formats = [format, ...report.map((file) => formatOfFile(file) ?? 'json')];
  for (const each of formats) rendererOf(each).catch(() => {});
}

function toSwap({ maxStall, keepOriginal, yes = false }: Options, signal: AbortSignal) {
  return {
    ...(keepOriginal === undefined ? {} : { keepOriginalMs: keepOriginal }),
    ...(maxStall === undefined ? {} : { maxClosedMs: maxStall }),
    confirm: (report: Report) => {
      const { database } = report.target;
      const aboutMs = report.clone.durationMs + report.command.durationMs;
      const question =
        `The rehearsal passed. Nobody will be able to connect to ${database} for about ${formatDuration(aboutMs)}; ` +
        'then it is the migrated clone, and the original is kept beside it.';
      return confirm(question, yes, signal);
    },
  };
}

/** The core's names say the units. */
export function toRehearse({ wait, maxStall, timeout, cloneTtl, maxCopy, audit, ...same }: Options) {
  return {
    ...same,
    policy: policyOf(same),
    ...(wait === undefined ? {} : { waitMs: wait }),
    ...(maxStall === undefined ? {} : { maxStallMs: maxStall }),
    ...(timeout === undefined ? {} : { timeoutMs: timeout }),
    ...(cloneTtl === undefined ? {} : { cloneTtlMs: cloneTtl }),
    ...(maxCopy === undefined ? {} : { maxCopyBytes: maxCopy }),
    ...(audit === undefined ? {} : { audit: auditTo(audit) }),
  };
}

/** One JSON object a line. The file is opened at once, so that a wrong path is found before anything is sent. */
export function auditTo(file: string): Audit {
  const append = (text: string) => {
    try {
      appendFileSync(file, text, { mode: 0o600 });
    } catch (cause) {
      throw new SafemigrateError(
        'CONFIGURATION',
        `The audit cannot be written to ${file}: ${messageOf(cause)}.`,
        {
          cause,
        },
      );
    }
  };
  append('');
  return (entry) => append(`${JSON.stringify(entry)}\n`);
}

function planText({ target, sent, next }: PlannedStatements): string {
  // What is done to files is told as a comment.
  const line = (sql: string) => `  ${sql.replace(/\s+/g, ' ').trim()}${sql.startsWith('--') ? '' : ';'}\n`;
  return [
    `Target: ${target.database} on ${target.host}:${target.port}, from ${target.source}\n\n`,
    'Already sent, to find out the rest (reads only):\n',
    ...sent.map(({ database, sql }) => `  [${database}]${line(sql).slice(1)}`),
    '\nA rehearsal would go on with:\n',
    ...next.map(line),
    '\nBetween making and dropping the clone, the command runs there; before and after it, the same reads as above are\n' +
      'made again on the target, and the catalogues and row counts of the clone are read. Of columns that the command\n' +
      'drops or cuts there, the values are counted on the target if the table is small.\nNothing was changed.\n',
  ].join('');
}
