import { listed } from '../format.ts';
import type { Caveat, CheckSection, FurtherRunSection } from '../model/report.ts';

/** What was asked of the clone beside the migration itself. */
export interface RequestedExtraRuns {
  readonly checks: readonly CheckSection[];
  readonly rerun: FurtherRunSection | null;
  readonly down: FurtherRunSection | null;
  readonly caveats: readonly Caveat[];
}

const LISTED = 3;

/** Why the user's own checks, the second run and the way back speak against the migration. */
export function askedReasons({ checks, rerun, down, caveats }: RequestedExtraRuns): string[] {
  return [
    ...checks.flatMap(checkReason),
    ...runReasons(rerun, SECOND_RUN),
    ...runReasons(down, WAY_BACK),
    ...notDone(caveats),
  ];
}

function checkReason({ name, rule, passed, error, rowsAfter, missing, added }: CheckSection): string[] {
  if (passed) return [];
  if (error)
    return [`the check ${name} failed ${error.when} the command: ${error.message} (${error.sqlstate})`];
  if (rule === 'empty') return [`the check ${name} must return no row, and returned ${rowsAfter}`];
  const sample = [...missing.map((row) => `- ${row}`), ...added.map((row) => `+ ${row}`)];
  const rows = sample.length === 0 ? '' : `: ${sample.slice(0, LISTED).join(', ')}`;
  return [`the check ${name} returned other rows after the command than before${rows}`];
}

interface Words {
  readonly path: 'rerun' | 'down';
  readonly name: string;
  readonly unlike: string;
}

const SECOND_RUN: Words = {
  path: 'rerun',
  name: 'the second run (--rerun)',
  unlike: 'the command is not safe to run twice',
};
const WAY_BACK: Words = {
  path: 'down',
  name: 'the way back (--down)',
  unlike: 'the way back (--down) does not lead back',
};

function runReasons(run: FurtherRunSection | null, { name, unlike }: Words): string[] {
  if (!run || run.passed) return [];
  const refused = run.refused.map(({ what, why }) => `${name}: ${what} was not run: ${why}`);
  const differences = [
    ...run.differences.filter(({ bookkeeping }) => !bookkeeping).map(({ what }) => what),
    ...run.dataDifferences
      .filter(({ bookkeeping }) => !bookkeeping)
      .map(({ relation, what }) => `${relation}: ${what}`),
  ];
  const unexpected =
    differences.length === 0
      ? []
      : [`${unlike}: ${listed(differences, { atMost: LISTED, separator: '; ' })}`];
  return [...endReason(run, name), ...refused, ...unexpected];
}

function endReason({ exitCode, signal, timedOut }: FurtherRunSection, name: string): string[] {
  if (timedOut) return [`${name} ran longer than --timeout allows and was ended`];
  if (signal !== null) return [`${name} was ended by ${signal}`];
  return exitCode === 0 ? [] : [`${name} failed with exit code ${exitCode}`];
}

/** What was asked for and could not be done cannot have passed. */
function notDone(caveats: readonly Caveat[]): string[] {
  return [SECOND_RUN, WAY_BACK].flatMap(({ path, name }) =>
    caveats
      .filter((caveat) => caveat.path === path && caveat.kind === 'unmeasured')
      .map(({ reason }) => `${name} was not tried: ${reason}`),
  );
}
