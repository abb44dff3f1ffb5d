import type { ScriptSection } from '../model/report.ts';
import type { AfterCommand, BeforeCommand } from './clone-steps.ts';
import type { RehearsalContext } from './prepare.ts';
import { measureProposal, type ProposalOutcome, proposeSaferForm } from './propose/propose.ts';
import { recordScript } from './record-script.ts';
import { type ExtraRuns, runAgain } from './run-again.ts';
import { type AtOnceOutcome, runAtOnce } from './run-at-once.ts';
import type { CloneRun, CloneSetup, OpenGuarded } from './run-on-clone.ts';
import { type LoadOutcome, runUnderLoad } from './run-under-load.ts';

// What is asked for beside the one run of the command, in this order; each does nothing if it was not:
//
//   recordScript         --script: what the command sent, as a script
//   runAtOnce            --at-once: the command several times together, on a second clone
//   proposeSaferForm     --propose: a safer form of what the command did, on a second clone
//   runAgain             --rerun and --down, on the first clone
//   runUnderLoad         --load: the command on a second clone, under load
//   measureProposal      --propose and --load: the safer form on a third clone, under the same load

/** What came of it. */
export interface FurtherRuns {
  readonly script: ScriptSection | null;
  readonly together: AtOnceOutcome;
  readonly proposed: ProposalOutcome;
  readonly again: ExtraRuns;
  readonly loaded: LoadOutcome;
}

/** The first run, and how a guarded one under load is opened. */
interface FirstRun {
  readonly before: BeforeCommand;
  readonly ran: CloneRun;
  readonly after: AfterCommand;
  readonly openGuarded: OpenGuarded | null;
}

export async function runFurther(
  setup: CloneSetup,
  prepared: RehearsalContext,
  { before, ran, after, openGuarded }: FirstRun,
): Promise<FurtherRuns> {
  const { schema } = after.observed;
  const { exitCode, durationMs } = ran.result;
  const script = await recordScript(setup, prepared, { ...after, exitCode });
  const together = await runAtOnce(setup, prepared, { before: before.beforeOneRun, schema });
  const proposal = await proposeSaferForm(setup, prepared, {
    ...after,
    setup,
    before: before.beforeProposal,
    exitCode,
    durationMs,
  });
  const again = await runAgain(setup, prepared, before.contents, { ...ran, schema });
  const { statements } = after.seen;
  const loaded = await runUnderLoad(setup, prepared, { schema, statements, openGuarded });
  const proposed = await measureProposal(setup, prepared, proposal, loaded);
  return { script, together, proposed, again, loaded };
}
