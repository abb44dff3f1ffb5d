import { accessSync, appendFileSync, constants, existsSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { messageOf, SafemigrateError } from '../errors.ts';
import type { Report } from '../model/report.ts';
import { CLONE_PORT, readEntries } from '../ownership/folder-records.ts';
import { inCi } from '../rehearsal/sizes-caveat.ts';
import { overwriteFile } from '../rehearsal/write-whole.ts';
import { endingOf } from '../report/ending.ts';
import { formatOfFile, type ReportFormat } from '../report/formats.ts';
import { render } from '../report/render.ts';
import { annotations, withoutCommands } from './ci/log-commands.ts';
import { keepReport } from './history.ts';
import type { RunValues } from './options/run-table.ts';
import { printEnding, visibleLines } from './print.ts';
import { styleOf } from './style.ts';

/** `redact` undefined: formats for others are redacted, and in CI all of them. */
type PublishOptions = Pick<RunValues, 'report' | 'format' | 'verbose' | 'redact' | 'clone'>;

/**
 * Checks that the report can be written, before anything is touched: a run without its report would be useless.
 * @throws SafemigrateError `CONFIGURATION`
 */
export function checkWritable(file: string, what = 'report', option = '--report'): void {
  try {
    accessSync(existsSync(file) ? file : dirname(resolve(file)), constants.W_OK);
  } catch (cause) {
    throw new SafemigrateError(
      'CONFIGURATION',
      `The ${what} cannot be written to ${file}: ${messageOf(cause)}.`,
      {
        hint: `Nothing was touched. Make the folder, or name another file with ${option}.`,
        cause,
      },
    );
  }
}

/** Formats that are made to be shown to others. */
const FOR_OUTSIDE = new Set<ReportFormat>(['markdown', 'summary', 'html', 'sarif']);

/** Writes, stores and prints the report of a run that has just ended; the last line that a person sees is its verdict. */
export async function publish(report: Report, options: PublishOptions): Promise<void> {
  const { env } = process;
  const out = await writeFiles(report, options);
  const notKept = await keepReport(report);
  if (notKept !== undefined)
    out.problems.push(`The report is not kept for \`safemigrate show\`: ${notKept}.`);
  if (env.GITHUB_ACTIONS === 'true') process.stderr.write(annotations(await out.forFormat('markdown')));
  if (report.clone.kept) process.stderr.write(visibleLines(await keptNote(report, options)));
  for (const problem of out.problems) process.stderr.write(visibleLines(`safemigrate: ${problem}\n`));
  await printReport(out.forFormat, options, process.stderr);
  if (options.format !== undefined) printEnding(endingOf(report));
}

/** Prints a stored report on standard output, all of it. @throws SafemigrateError `CONFIGURATION` for a file that cannot be written. */
export async function publishStored(
  report: Report,
  options: Pick<PublishOptions, 'report' | 'format' | 'redact'>,
): Promise<void> {
  const out = await writeFiles(report, options);
  await printReport(out.forFormat, { ...options, verbose: true }, process.stdout);
  const [problem] = out.problems;
  if (problem !== undefined) throw new SafemigrateError('CONFIGURATION', problem);
}

function isRedacted(format: ReportFormat, redact: boolean | undefined): boolean {
  return redact ?? (FOR_OUTSIDE.has(format) || inCi(process.env));
}

/** Returns the report as this format may show it. @param redact undefined: redacted for others and in CI. */
export async function forReader(
  report: Report,
  format: ReportFormat,
  redact: boolean | undefined,
): Promise<Report> {
  if (!isRedacted(format, redact)) return report;
  const { redactReport } = await import('../observe/redact-report.ts');
  return redactReport(report);
}

/** Writes the report to its files, before it is printed: a closed terminal must not prevent that. */
export async function writeFiles(report: Report, options: Pick<PublishOptions, 'report' | 'redact'>) {
  const { env } = process;
  const problems: string[] = [];
  const attempt = async (what: string, work: () => Promise<void>) => {
    try {
      await work();
    } catch (error) {
      problems.push(`The report could not be written to ${what}: ${messageOf(error)}.`);
    }
  };
  let redacted: Promise<Report> | undefined;
  const forFormat = (format: ReportFormat): Report | Promise<Report> => {
    if (!isRedacted(format, options.redact)) return report;
    redacted ??= forReader(report, format, true);
    return redacted;
  };
  const files = (options.report ?? []).map((file) => ({ file, format: formatOfFile(file) ?? 'json' }));
  for (const { file, format } of files)
    await attempt(file, async () => overwriteFile(file, await renderPlain(await forFormat(format), format)));
  const summary = env.GITHUB_STEP_SUMMARY;
  if (summary)
    await attempt('the summary of the step', async () =>
      appendFileSync(summary, await renderPlain(await forFormat('markdown'), 'markdown')),
    );
  return { problems, forFormat };
}

/** Prints the report on standard output if a format is asked for, else as text on the terminal. */
export async function printReport(
  forFormat: (format: ReportFormat) => Report | Promise<Report>,
  { format, verbose = false }: Pick<PublishOptions, 'format' | 'verbose'>,
  terminal: NodeJS.WriteStream,
): Promise<void> {
  const stream = format === undefined ? terminal : process.stdout;
  const shown = format ?? 'text';
  const rendered = await render(await forFormat(shown), shown, { ...styleOf(stream), verbose });
  // Only a person reads text; other formats are for programs, byte by byte.
  const text = shown === 'text' ? withoutCommands(rendered) : rendered;
  stream.write(format === undefined ? `\n${text}` : text);
}

function renderPlain(report: Report, format: ReportFormat): Promise<string> {
  return render(report, format, { columns: 100, colour: false, unicode: true, verbose: true });
}

async function keptNote({ run, target, clone }: Report, options: PublishOptions): Promise<string> {
  if (clone.isolation === 'own-cluster') return keptServerNote(run.id, clone.database);
  if (options.clone?.rehearsalUrl !== undefined) {
    return (
      `\nThe clone is kept, as the database ${clone.database} on the server of --clone-to.\n` +
      'Drop it with `safemigrate clean --kept --url` and that URL.\n'
    );
  }
  const where = `host=${target.host} port=${target.port}`;
  return (
    `\nThe clone is kept. Connect to it as you do to the target, with another database:\n` +
    `  psql "${where} dbname=${clone.database}"\n` +
    'Drop it with `safemigrate clean --kept`.\n'
  );
}

/** Its socket is in a folder that only the server's user and root may enter, and it asks for no password. */
async function keptServerNote(run: string, database: string): Promise<string> {
  const entries = await readEntries();
  const entry = entries.find((each) => 'run' in each && each.run === run);
  if (!entry || 'unreadable' in entry) return '\nThe clone is kept. `safemigrate list` shows where.\n';
  return (
    `\nThe clone is kept until ${entry.endsAt}. Connect to it on this machine, as any role of the target:\n` +
    `  psql "host=${entry.socketFolder} port=${CLONE_PORT} dbname=${database}"\n` +
    'End it with `safemigrate clean --kept`.\n'
  );
}
