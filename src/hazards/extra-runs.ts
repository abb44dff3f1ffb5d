import { listed, plural } from '../format.ts';
import type { AtOnceSection, Caveat, CheckSection, FurtherRunSection } from '../model/report.ts';

/** The results of the user's checks and of the extra runs on the clone. */
export interface RequestedExtraRuns {
  readonly checks: readonly CheckSection[];
  readonly rerun: FurtherRunSection | null;
  readonly down: FurtherRunSection | null;
  readonly atOnce: AtOnceSection | null;
  readonly caveats: readonly Caveat[];
}

const LISTED = 3;

/** The reasons of the user's own checks, the second run and the down migration against the migration; the application's checks are hazards. */
export function extraRunReasons({ checks, rerun, down, atOnce, caveats }: RequestedExtraRuns): string[] {
  return [
    ...checks.flatMap(checkReason),
    ...runReasons(rerun, SECOND_RUN),
    ...runReasons(down, DOWN),
    ...atOnceReasons(atOnce),
    ...notDone(caveats),
  ];
}

function checkReason({ name, rule, passed, error, rowsAfter, missing, added }: CheckSection): string[] {
  if (passed) return [];
  if (error)
    return [`the check ${name} failed ${error.when} the command: ${error.message} (${error.sqlstate})`];
  if (rule === 'empty') return [`the check ${name} must return no rows, but returned ${rowsAfter}`];
  const sample = [...missing.map((row) => `- ${row}`), ...added.map((row) => `+ ${row}`)];
  const rows = sample.length === 0 ? '' : `: ${sample.slice(0, LISTED).join(', ')}`;
  return [`the check ${name} returned different rows after the command than before${rows}`];
}

const SECOND_RUN = {
  path: 'rerun',
  name: 'the second run (--rerun)',
  unlike: 'the command is not safe to run twice',
} as const;
const DOWN = {
  path: 'down',
  name: 'the down migration (--down)',
  unlike: 'the down migration (--down) does not restore the previous state',
} as const;

function runReasons(
  run: FurtherRunSection | null,
  { name, unlike }: typeof SECOND_RUN | typeof DOWN,
): string[] {
  if (!run || run.passed) return [];
  const refused = run.refused.map(({ what, why }) => `${name}: ${what} was not run: ${why}`);
  const differences = [
    ...run.differences.filter(({ bookkeeping }) => !bookkeeping).map(({ what }) => what),
    ...run.dataDifferences.filter(countsAgainst).map(({ relation, what }) => `${relation}: ${what}`),
  ];
  const unexpected =
    differences.length === 0
      ? []
      : [`${unlike}: ${listed(differences, { atMost: LISTED, separator: '; ' })}`];
  return [...endReason(run, name), ...refused, ...unexpected];
}

const TOGETHER = { path: 'atOnce', name: 'the runs together (--at-once)' } as const;

const APPLICATION = {
  path: 'app',
  name: 'the checks of the application (--app, SAFEMIGRATE_APP_NEW)',
  lack: 'say nothing',
} as const;

function atOnceReasons(section: AtOnceSection | null): string[] {
  if (!section || section.passed) return [];
  const { runs, deadlocks, schemaEqual, dataDifferences } = section;
  const failed = runs.filter(({ exitCode }) => exitCode !== 0);
  const because = deadlocks > 0 ? `, after ${plural(deadlocks, 'deadlock')}` : '';
  const codes = [...new Set(failed.map(({ exitCode, signal }) => signal ?? `exit code ${exitCode}`))];
  const rows = dataDifferences.filter(({ bookkeeping }) => !bookkeeping);
  const differences = [
    ...(schemaEqual === false ? ['another schema'] : []),
    ...rows.map(({ relation, what }) => `${relation}: ${what}`),
  ];
  return [
    ...(failed.length > 0
      ? [
          `of ${runs.length} runs that were started together ${failed.length} failed (${codes.join(', ')})${because}`,
        ]
      : []),
    ...(differences.length > 0
      ? [
          `runs that were started together leave what one does not: ${listed(differences, { atMost: LISTED, separator: '; ' })}`,
        ]
      : []),
  ];
}

/** Says whether a difference of rows makes a further run fail. */
export function countsAgainst({
  bookkeeping,
  ignored = false,
}: FurtherRunSection['dataDifferences'][number]): boolean {
  return !bookkeeping && !ignored;
}

function endReason({ exitCode, signal, timedOut }: FurtherRunSection, name: string): string[] {
  if (timedOut) return [`${name} ran longer than --timeout allows and was terminated`];
  if (signal !== null) return [`${name} was terminated by ${signal}`];
  return exitCode === 0 ? [] : [`${name} failed with exit code ${exitCode}`];
}

/** An extra run that was requested but not possible has not passed. */
function notDone(caveats: readonly Caveat[]): string[] {
  const runs = [SECOND_RUN, DOWN, TOGETHER].map((run) => ({ ...run, lack: 'was not run' }));
  return [...runs, APPLICATION].flatMap(({ path, name, lack }) =>
    caveats
      .filter((caveat) => caveat.path === path && caveat.kind === 'unmeasured')
      .map(({ reason }) => `${name} ${lack}: ${reason}`),
  );
}
