import { formatBytes } from '../format.ts';
import type { Caveat, Report } from '../model/report.ts';
import type { RehearsalPlan } from './plan.ts';

/** In CI, a database below this is taken for a small copy. */
const SMALL_BYTES = 2 ** 30;

/** Tells whether the environment is that of a CI job, as the variable CI says in all of them. */
export function inCi({ CI: value }: NodeJS.ProcessEnv): boolean {
  return value !== undefined && value !== '' && value !== '0' && value !== 'false';
}

/** Adds a caveat if a rehearsal was made on data that is plainly not production's, and judged by their sizes. */
export function withSizesCaveat(report: Report, { target, command }: RehearsalPlan): Report {
  if (report.profile) return report;
  const { sizeBytes } = report.target;
  const isDump = target.from !== null;
  if (!isDump && !(inCi(command.env) && sizeBytes < SMALL_BYTES)) return report;
  const caveat: Caveat = {
    path: 'hazards[].severity',
    kind: 'estimate',
    reason: report.data?.withoutRows
      ? 'this dump has no rows: which data is lost, and how long statements take, is not known; a profile has the sizes of production ' +
        '(safemigrate profile, --profile)'
      : `judged by the sizes of this ${isDump ? 'dump' : 'database'} (${formatBytes(sizeBytes)}); if production is larger, ` +
        'give its sizes: safemigrate profile, --profile',
  };
  return { ...report, caveats: [...report.caveats, caveat] };
}
