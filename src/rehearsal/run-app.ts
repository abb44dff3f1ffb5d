import { inPhase } from '../events.ts';
import { measured } from '../measured.ts';
import type { Caveat, StatementSection } from '../model/report.ts';
import type { Observed } from '../proxy/observed.ts';
import {
  type AppAttempt,
  appCaveats,
  FailureLog,
  nameOfApp,
  sectionOf,
  type TriedApp,
} from './app-results.ts';
import { cloneAgain } from './clone-again.ts';
import type { ExtraRun, FirstRun } from './extra-run.ts';
import type { App } from './locate-apps.ts';
import { refuseIf, statementsOnFirst, whyNotFurther } from './run-again.ts';
import { type CloneRun, type CloneSetup, openWire, runThroughWire } from './run-on-clone.ts';

// The checks of the application (`--app`, `appNew`), in the order of their steps:
//
//   migratedClone   the first clone, unless the down migration has run there
//   on it           all checks, those of the old release first
//   a second clone  not migrated: those of the new release, and if one of the old release failed, all in the same order
//   once more       what passed on one clone and failed on the other, where it failed: if it passes now, chance was the reason

/** The checks of the application's releases, with the migration and without it. */
export const APP: ExtraRun = {
  path: 'app',
  isAsked: ({ checks }) => checks.app.length + checks.appNew.length > 0,
  run: async (first, { runs: earlier }) => {
    const runs: CloneRun[] = [];
    const caveats: Caveat[] = [];
    const statements: StatementSection[] = [];
    const contacts = earlier.flatMap(({ targetConnections }) => targetConnections);
    const read = () =>
      measured(caveats, 'app', async () => {
        refuseIf(whyNotFurther(first.setup, first.ran.result, contacts));
        const tried = await tryApps(first, { runs, statements });
        caveats.push(...tried.flatMap(appCaveats));
        return tried.map(sectionOf);
      });
    const app = await inPhase(first.setup.context.emit, 'app', read, (done) => done === null);
    return { sections: app ? { app } : {}, runs, statements, caveats };
  },
};

/** The runs of the checks, for the rest of the rehearsal, and the statements of those on the first clone. */
interface Traces {
  readonly runs: CloneRun[];
  readonly statements: StatementSection[];
}

const MIGRATED = 'on the migrated clone';
const UNMIGRATED = 'on a clone that is not migrated';

async function tryApps(first: FirstRun, traces: Traces): Promise<TriedApp[]> {
  const { setup, prepared } = first;
  const migrated = await migratedClone(first, traces);
  // Statements on the first clone count as the command's own do.
  const counted = migrated === setup ? traces : { ...traces, statements: [] };
  const after: AppAttempt[] = [];
  for (const app of prepared.apps) after.push(await tryOn(migrated, app, counted, MIGRATED));
  const oldFails = prepared.apps.some(({ release }, at) => release === 'old' && !after[at]?.passed);
  const isTried = ({ release }: App) => release === 'new' || oldFails;
  const unmigrated = prepared.apps.some(isTried) ? await cloneAgain(setup, prepared) : null;
  const apart = { ...traces, statements: [] };
  const before: (AppAttempt | null)[] = [];
  for (const app of prepared.apps)
    before.push(unmigrated && isTried(app) ? await tryOn(unmigrated, app, apart, UNMIGRATED) : null);
  const tried: TriedApp[] = [];
  for (const [at, app] of prepared.apps.entries()) {
    const [then = null, now] = [before[at], after[at]];
    if (!now) continue;
    const differs = then !== null && then.passed !== now.passed && (app.release === 'new' || !now.passed);
    const again = !differs
      ? null
      : now.passed && unmigrated
        ? await tryOn(unmigrated, app, apart, `once more ${UNMIGRATED}`)
        : await tryOn(migrated, app, counted, `once more ${MIGRATED}`);
    tried.push({ app, before: then, after: now, again });
  }
  return tried;
}

/** The down migration has undone the first clone's, so that the command runs on another one. */
async function migratedClone({ setup, prepared }: FirstRun, { runs }: Traces): Promise<CloneSetup> {
  if (setup.plan.checks.down === null) return setup;
  const other = await cloneAgain(setup, prepared);
  const run = await runThroughWire(other, prepared.command, await openWire(other, prepared.command));
  runs.push(run);
  refuseIf(whyNotFurther(setup, run.result, run.targetConnections));
  return other;
}

/** @param where the words before the output of the run: a reader would take that of another run for the migration's fault. */
async function tryOn(
  setup: CloneSetup,
  app: App,
  { runs, statements }: Traces,
  where: string,
): Promise<AppAttempt> {
  setup.context.emit({
    type: 'notice',
    message: `${nameOfApp(app)} of the ${app.release} release, ${where}:`,
  });
  const log = new FailureLog();
  const settings = { folder: app.folder, timeoutMs: setup.plan.checks.appTimeoutMs };
  const observer = (event: Observed) => log.observe(event);
  const run = await runThroughWire(setup, app, await openWire(setup, app, { observer, settings }));
  runs.push(run);
  statements.push(...(await statementsOnFirst(setup, run)));
  const { exitCode, signal, timedOut, durationMs } = run.result;
  return {
    exitCode,
    signal,
    timedOut,
    durationMs,
    statements: log.ended,
    passed: exitCode === 0,
    reachedClone: run.wire.reached(),
    failures: log.failures(),
    refused: [...run.gate.refused],
  };
}
