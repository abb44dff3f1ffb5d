import { formatCount, formatRate, plural } from '../../format.ts';
import type { CheckSection, FurtherRunSection, QueriesSection, Report } from '../../model/report.ts';
import { atOnceWords } from '../at-once-phrases.ts';
import { commandWords, costWords } from '../phrases.ts';
import { flow, marks, type TextStyle, tone } from '../text-layout.ts';
import { andMore, bullet, heading, messageText } from './parts-text.ts';

const LISTED = 8;
const SQL_COLUMNS = 160;

type Query = Pick<QueriesSection['broken'][number], 'sql' | 'callsPerSecond'>;

/** Queries of the running application. */
export function queriesText({ queries }: Report, style: TextStyle): string[] {
  if (queries === null) return [];
  const { broken, slower, refused = [], changedRow = [], checked, skipped, source, planned } = queries;
  const { arrow } = marks(style);
  const counts = [
    ...(broken.length > 0
      ? [`${formatCount(broken.length)} NO LONGER WORK${broken.length === 1 ? 'S' : ''}`]
      : []),
    ...(refused.length > 0 ? [`${formatCount(refused.length)} to be refused`] : []),
    ...(changedRow.length > 0 ? [`${formatCount(changedRow.length)} with other columns`] : []),
    ...(slower.length > 0 ? [`${formatCount(slower.length)} with a more expensive plan`] : []),
  ];
  const still = counts.length === 0 ? 'all still work' : counts.join(', ');
  const failed =
    skipped.failedBefore === 0 ? '' : `; ${formatCount(skipped.failedBefore)} already failed before`;
  const costs = planned || checked === 0 ? '' : '; none could be planned';
  return [
    ...heading(
      style,
      'Queries',
      `${formatCount(checked)} of the application (${messageText(style, source)}): ${still}${failed}${costs}`,
    ),
    ...broken
      .slice(0, LISTED)
      .flatMap((query) => [
        ...queryLine(query, style, [tone('bad', `${marks(style).fail} BROKEN`), ' ']),
        ...flow(style, [messageText(style, query.error.message), ` (SQLSTATE ${query.error.sqlstate})`], 6, [
          '      ',
        ]),
      ]),
    ...andMore(style, broken.length - LISTED, ' broken'),
    ...slower
      .slice(0, LISTED)
      .flatMap((query) => [
        ...queryLine(query, style, [tone('warning', `${marks(style).warning} SLOWER`), ' ']),
        ...flow(
          style,
          [
            `cost ${costWords(query, arrow)}`,
            query.nodeBefore === null || query.nodeAfter === null
              ? ''
              : `, ${messageText(style, query.nodeBefore)} ${arrow} ${messageText(style, query.nodeAfter)}`,
          ],
          6,
          ['      '],
        ),
      ]),
    ...andMore(style, slower.length - LISTED, ' slower'),
  ];
}

function queryLine(
  { sql, callsPerSecond }: Query,
  style: TextStyle,
  label: Parameters<typeof flow>[3] & {},
): string[] {
  const rate = callsPerSecond === null ? '' : `${formatRate(callsPerSecond)}: `;
  return flow(style, [rate, messageText(style, sql, SQL_COLUMNS)], 6, ['  ', ...label]);
}

/** The user's own checks, the second run and the down migration. */
export function checkSections(report: Report, style: TextStyle): string[][] {
  return [
    checksSection(report.checks, style),
    atOnceSection(report, style),
    furtherSection('Second run', report.rerun, style),
    furtherSection('Down migration', report.down, style),
  ];
}

function atOnceSection({ atOnce }: Report, style: TextStyle): string[] {
  if (!atOnce) return [];
  const outcome = atOnce.passed ? 'passed' : 'DID NOT PASS';
  const words = atOnceWords(atOnce);
  return [
    ...heading(
      style,
      'At once',
      `${plural(atOnce.runs.length, 'run')} started together on a second clone, ${outcome}`,
    ),
    ...words.slice(0, LISTED).flatMap((each) => bullet(style, [messageText(style, each)])),
    ...andMore(style, words.length - LISTED),
  ];
}

function checksSection(checks: readonly CheckSection[], style: TextStyle): string[] {
  if (checks.length === 0) return [];
  const failed = checks.filter(({ passed }) => !passed);
  const summary = failed.length === 0 ? 'all passed' : `${formatCount(failed.length)} DID NOT PASS`;
  return [
    ...heading(style, 'Checks', `${formatCount(checks.length)} of your own, ${summary}`),
    ...[...failed, ...checks.filter(({ passed }) => passed)]
      .slice(0, LISTED)
      .flatMap((check) => checkLines(check, style)),
    ...andMore(style, checks.length - LISTED),
  ];
}

function checkLines(check: CheckSection, style: TextStyle): string[] {
  const { name, passed, rule, rowsAfter, error, missing, added } = check;
  const mark = passed ? tone('good', marks(style).pass) : tone('bad', marks(style).fail);
  const rows =
    rowsAfter === null ? '' : ` [${plural(rowsAfter, 'row')}${rule === 'same' ? ', as before' : ''}]`;
  const line = flow(style, [messageText(style, name, SQL_COLUMNS), passed ? tone('dim', rows) : ''], 4, [
    '  ',
    mark,
    ' ',
  ]);
  const differing = [
    ...missing.map((row) => ['-', row] as const),
    ...added.map((row) => ['+', row] as const),
  ];
  return [
    ...line,
    ...(error === null
      ? []
      : flow(
          style,
          [
            `failed ${error.when} the command: ${messageText(style, error.message)} (SQLSTATE ${error.sqlstate})`,
          ],
          6,
          ['      '],
        )),
    ...differing.flatMap(([sign, row]) =>
      flow(style, [messageText(style, row, SQL_COLUMNS)], 8, [`      ${sign} `]),
    ),
  ];
}

const BOOKKEEPING = " (the migration tool's own table)";

function furtherSection(title: string, run: FurtherRunSection | null, style: TextStyle): string[] {
  if (run === null) return [];
  const { passed, differences, dataDifferences, tablesCompared, tablesSkipped } = run;
  const mark = passed ? tone('good', marks(style).pass) : tone('bad', marks(style).fail);
  const skipped =
    tablesSkipped === 0 ? '' : `; the rows of ${plural(tablesSkipped, 'table')} were not compared (too many)`;
  const items = [
    ...run.refused.map(({ what, why }) => ({ what: `${what} was not run: ${why}`, aside: '' })),
    ...differences.map(({ what, bookkeeping }) => ({ what, aside: bookkeeping ? BOOKKEEPING : '' })),
    ...dataDifferences.map(({ relation, what, bookkeeping, ignored }) => ({
      what: `${relation}: ${what}`,
      aside: bookkeeping ? BOOKKEEPING : ignored ? ' (--rerun-ignore)' : '',
    })),
  ];
  return [
    ...heading(style, title, `${commandWords(run)}${skipped}`),
    ...flow(style, [messageText(style, run.command, SQL_COLUMNS)], 4, ['  ', mark, ' ']),
    ...items
      .slice(0, LISTED)
      .flatMap(({ what, aside }) =>
        bullet(style, [messageText(style, what), aside === '' ? '' : tone('dim', aside)]),
      ),
    ...andMore(style, items.length - LISTED),
    ...(items.length === 0 && run.exitCode === 0
      ? bullet(style, [`the schema and the rows of ${plural(tablesCompared, 'table')} are as expected`])
      : []),
  ];
}
