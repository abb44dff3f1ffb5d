import { writeFileSync } from 'node:fs';
import { messageOf } from '../../errors.ts';
import type { UpgradeReport } from '../../model/upgrade-model.ts';
import { upgradeEnding } from '../../report/ending.ts';
import { formatOfFile, type UpgradeFormat } from '../../report/formats.ts';
import { renderUpgrade } from '../../report/render.ts';
import type { OptionsOf } from '../../settings.ts';
import { rehearseUpgrade } from '../../upgrade/perform-upgrade.ts';
import { makeUpgradePlan } from '../../upgrade/upgrade-plan.ts';
import { auditTo } from '../audit-file.ts';
import { withoutCommands } from '../ci/log-commands.ts';
import { EXIT, exitCodeOfSignal } from '../exit-codes.ts';
import { UPGRADE_COMMAND_SETTINGS } from '../options/subcommand-settings.ts';
import { printEnding, visibleLines } from '../print.ts';
import { progress } from '../progress.ts';
import { checkWritable } from '../publish.ts';
import { gatherOptions } from '../read-options.ts';
import type { SignalWatch } from '../signals.ts';
import { styleOf } from '../style.ts';

/** Rehearses a major upgrade, and prints what it found. @returns the exit code. @throws SafemigrateError without a report */
export async function upgradeCommand(
  flags: Record<string, unknown>,
  command: readonly string[],
  signals: SignalWatch,
): Promise<number> {
  const values = await gatherOptions(UPGRADE_COMMAND_SETTINGS, flags);
  for (const file of values.report ?? []) checkWritable(file);
  const display = progress(process.stderr);
  try {
    const report = await rehearseUpgrade(
      makeUpgradePlan({
        ...values,
        audit: auditTo(values.audit),
        command,
        commandStdout: values.format ? 'stderr' : 'inherit',
        emit: display.emit,
        interrupts: signals.interrupts,
        signal: signals.abort,
      }),
    );
    display.finish();
    await publishUpgrade(report, values);
    if (signals.received) return exitCodeOfSignal(signals.received);
    return report.verdict.pass ? EXIT.passed : EXIT.failed;
  } finally {
    display.finish();
  }
}

/** Writes the report to its files first: a terminal that is gone must not prevent that. */
async function publishUpgrade(
  report: UpgradeReport,
  { report: files = [], format }: Pick<OptionsOf<typeof UPGRADE_COMMAND_SETTINGS>, 'report' | 'format'>,
): Promise<void> {
  const plain = { columns: 100, colour: false, unicode: true };
  const problems: string[] = [];
  for (const file of files)
    try {
      const text = await renderUpgrade(report, formatOfFile(file) as UpgradeFormat, plain);
      writeFileSync(file, text, { mode: 0o600 });
    } catch (error) {
      problems.push(`The report could not be written to ${file}: ${messageOf(error)}.`);
    }
  for (const problem of problems) process.stderr.write(visibleLines(`safemigrate: ${problem}\n`));
  if (format === undefined) {
    const style = styleOf(process.stderr);
    process.stderr.write(withoutCommands(`\n${await renderUpgrade(report, 'text', style)}`));
  } else {
    const style = styleOf(process.stdout);
    const text = await renderUpgrade(report, format, style);
    process.stdout.write(format === 'text' ? withoutCommands(text) : text);
    printEnding(upgradeEnding(report));
  }
}
