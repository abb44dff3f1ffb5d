import { measured } from '../measured.ts';
import type { Caveat } from '../model/report.ts';
import type { Contents } from '../observe/checks/contents.ts';
import { contentsOf } from './clone-again.ts';
import type { ContentsBefore, ExtraResults, ExtraRun, FirstRun } from './extra-run.ts';
import { PROBE_CAUSES } from './find-causes.ts';
import { SAFER_FORMS } from './propose/find-forms.ts';
import { PROPOSAL, PROPOSAL_UNDER_LOAD } from './propose/propose.ts';
import { RECORDED_SCRIPT } from './record-script.ts';
import { DOWN, RERUN } from './run-again.ts';
import { APP } from './run-app.ts';
import { AT_ONCE } from './run-at-once.ts';
import type { CloneSetup } from './run-on-clone.ts';
import { LOAD } from './run-under-load.ts';

/** Everything that can be asked for beside the first run, in the order in which it is done. */
const EXTRA_RUNS: readonly ExtraRun[] = [
  PROBE_CAUSES,
  SAFER_FORMS,
  RECORDED_SCRIPT,
  AT_ONCE,
  // The order of the application's locks is that of a proposal.
  LOAD,
  PROPOSAL,
  RERUN,
  DOWN,
  APP,
  PROPOSAL_UNDER_LOAD,
];

/** Reads the contents of the clone's tables by the further run that needs them; those that cannot be read are left out. */
export async function readContentsBefore(setup: CloneSetup): Promise<ContentsBefore> {
  const contents = new Map<string, Contents>();
  const caveats: Caveat[] = [];
  for (const { path, isAsked, contents: options } of EXTRA_RUNS) {
    if (!options || !isAsked(setup.plan)) continue;
    const read = await measured(caveats, path, () => contentsOf(setup, options));
    if (read) contents.set(path, read);
  }
  return { contents, caveats };
}

/** Does everything that is asked for beside the first run. After an interrupt that the command got, nothing more is begun. */
export async function runFurther(first: FirstRun): Promise<ExtraResults> {
  const { plan, life } = first.setup;
  let results: ExtraResults = {
    sections: {},
    runs: [],
    statements: [],
    caveats: first.before.contents.caveats,
  };
  for (const extra of EXTRA_RUNS) {
    if (!extra.isAsked(plan)) continue;
    if (plan.signal.aborted) {
      const reason = 'the run was interrupted';
      results = joined(results, { caveats: [{ path: extra.path, kind: 'unmeasured', reason }] });
      continue;
    }
    results = joined(results, await extra.run(first, results));
    // A failure in consequence of an interrupt or a loss is none of the run's own.
    life.stop.signal.throwIfAborted();
  }
  return results;
}

function joined(results: ExtraResults, more: Partial<ExtraResults>): ExtraResults {
  return {
    ...results,
    ...more,
    sections: { ...results.sections, ...more.sections },
    runs: [...results.runs, ...(more.runs ?? [])],
    statements: [...results.statements, ...(more.statements ?? [])],
    caveats: [...results.caveats, ...(more.caveats ?? [])],
  };
}
