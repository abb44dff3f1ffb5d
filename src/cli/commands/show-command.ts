import { compareReports, compareStatements } from '../../report/compare-reports.ts';
import { EXIT } from '../exit-codes.ts';
import { readReport } from '../history.ts';
import { SHOW_OPTIONS } from '../options/subcommand-table.ts';
import { visibleLines } from '../print.ts';
import { checkWritable, publishStored } from '../publish.ts';
import { gatherOptions } from '../read-options.ts';

/** Prints the stored report of a run, writes it in other formats, or compares it with another run's. */
export async function showCommand(flags: Record<string, unknown>, run: string | undefined): Promise<number> {
  const { compare, ...options } = await gatherOptions(SHOW_OPTIONS, flags);
  for (const file of options.report ?? []) checkWritable(file);
  const report = await readReport(run);
  if (compare === undefined) {
    await publishStored(report, options);
    return EXIT.passed;
  }
  const then = await readReport(compare);
  const lines = [...compareReports(report, then), ...compareStatements(report, then)];
  const title = `Run ${report.run.id} (${report.run.startedAt}) against ${then.run.id} (${then.run.startedAt}):\n`;
  const text =
    lines.length === 0 ? '  nothing notable is different\n' : lines.map((line) => `  - ${line}\n`).join('');
  process.stdout.write(visibleLines(title + text));
  return EXIT.passed;
}
