import { formatCount, formatDuration, plural } from '../../format.ts';
import type { AtOnceSection, CheckSection, FurtherRunSection, Report } from '../../model/report.ts';
import { commandWords } from '../phrases.ts';
import { tone } from '../text-layout.ts';
import { type Item, named, type Phrase, type Section, sql } from '../view/section.ts';

/** The user's own checks, the runs at once, the second run and the down migration. */
export function checkViews({ checks, atOnce, rerun, down }: Report): Section[] {
  return [
    ...checksView(checks),
    ...(atOnce ? [atOnceView(atOnce)] : []),
    ...(rerun ? [furtherView('second-run', 'Second run', rerun)] : []),
    ...(down ? [furtherView('down-migration', 'Down migration', down)] : []),
  ];
}

/** Checks that failed come first. */
function checksView(checks: readonly CheckSection[]): Section[] {
  if (checks.length === 0) return [];
  const failed = checks.filter(({ passed }) => !passed);
  const outcome = failed.length === 0 ? 'all passed' : `${formatCount(failed.length)} DID NOT PASS`;
  return [
    {
      id: 'checks',
      title: 'Checks',
      summary: `${formatCount(checks.length)} of your own, ${outcome}`,
      folds: failed.length === 0 ? 'in-comment' : 'never',
      importance: 8,
      blocks: [
        { kind: 'items', items: [...failed, ...checks.filter(({ passed }) => passed)].map(checkItem) },
      ],
    },
  ];
}

function checkItem({ name, passed, rule, rowsAfter, error, missing, added }: CheckSection): Item {
  const rows =
    rowsAfter === null ? '' : ` [${plural(rowsAfter, 'row')}${rule === 'same' ? ', as before' : ''}]`;
  return {
    mark: passed ? 'good' : 'bad',
    text: [sql(name), tone('dim', passed ? rows : '')],
    notes:
      error === null
        ? []
        : [{ text: `failed ${error.when} the command: ${error.message} (SQLSTATE ${error.sqlstate})` }],
    items: [
      ...missing.map((row) => ({ text: ['gone: ', sql(row)] })),
      ...added.map((row) => ({ text: ['new: ', sql(row)] })),
    ],
  };
}

const BOOKKEEPING = " (the migration tool's own table)";

function atOnceView(atOnce: AtOnceSection): Section {
  const { runs, passed, tablesSkipped } = atOnce;
  return {
    id: 'at-once',
    title: 'At once',
    summary: `${plural(runs.length, 'run')} started together on a second clone, ${passed ? 'passed' : 'DID NOT PASS'}${skippedWords(tablesSkipped)}`,
    folds: passed ? 'in-comment' : 'never',
    importance: 7,
    blocks: [{ kind: 'items', items: atOnceWords(atOnce).map((text) => ({ text })) }],
  };
}

/** The results of runs that were started together, a sentence each. */
export function atOnceWords({
  runs,
  deadlocks,
  schemaEqual,
  dataDifferences,
  tablesCompared,
}: AtOnceSection): string[] {
  const failed = runs.filter(({ exitCode }) => exitCode !== 0);
  const longest = Math.max(0, ...runs.map(({ durationMs }) => durationMs));
  return [
    failed.length === 0
      ? `all ${runs.length} succeeded, the last after ${formatDuration(longest)}`
      : `${failed.length} of ${runs.length} failed (${failed.map(({ exitCode, signal }) => signal ?? `exit code ${exitCode}`).join(', ')})`,
    ...(deadlocks > 0 ? [plural(deadlocks, 'deadlock')] : []),
    ...(schemaEqual === false ? ['they leave another schema than one run'] : []),
    ...dataDifferences.map(
      ({ relation, what, bookkeeping }) => `${relation}: ${what}${bookkeeping ? BOOKKEEPING : ''}`,
    ),
    ...(schemaEqual && dataDifferences.length === 0 ? [asExpected(tablesCompared)] : []),
  ];
}

function furtherView(id: string, title: string, run: FurtherRunSection): Section {
  const { command, passed, exitCode, reachedClone, tablesCompared, tablesSkipped } = run;
  const differences = differenceItems(run);
  const isClean = differences.length === 0 && exitCode === 0;
  return {
    id,
    title,
    summary: `${passed ? 'passed' : 'DID NOT PASS'} (${commandWords(run)})${reachedClone ? '' : ', but never connected to the clone'}${skippedWords(tablesSkipped)}`,
    folds: passed ? 'in-comment' : 'never',
    importance: 7,
    blocks: [
      {
        kind: 'items',
        items: [
          { mark: passed ? 'good' : 'bad', text: [sql(command)] },
          ...differences,
          ...(isClean ? [{ text: asExpected(tablesCompared) }] : []),
        ],
      },
    ],
  };
}

function differenceItems({ refused, schemaEqual, differences, dataDifferences }: FurtherRunSection): Item[] {
  const item = (text: Phrase, aside = ''): Item => ({
    text: [...(typeof text === 'string' ? [text] : text), tone('dim', aside)],
  });
  return [
    ...refused.map(({ what, why }) => item(`${what} was not run: ${why}`)),
    ...(schemaEqual === false && differences.length === 0 ? [item('the schema is another one')] : []),
    ...differences.map(({ what, bookkeeping }) => item(what, bookkeeping ? BOOKKEEPING : '')),
    ...dataDifferences.map(({ relation, what, bookkeeping, ignored }) =>
      item([named(relation), `: ${what}`], bookkeeping ? BOOKKEEPING : ignored ? ' (rerunIgnore)' : ''),
    ),
  ];
}

function skippedWords(tables: number): string {
  return tables === 0 ? '' : `; the rows of ${plural(tables, 'table')} were not compared (too many)`;
}

function asExpected(tables: number): string {
  return `the schema and the rows of ${plural(tables, 'table')} are as expected`;
}
