import { UNWATCHED } from '../command/sandbox/command-sandbox.ts';
import { findHazards } from '../hazards/catalogue.ts';
import { HazardContext } from '../hazards/hazard-context.ts';
import { isTried } from '../hazards/kinds/tried.ts';
import { causesOf } from '../hazards/probe-causes.ts';
import { isUnmeasured, measuredOrReason } from '../measured.ts';
import type { ProbeDifference } from '../model/probe-difference.ts';
import { differsAgain } from '../observe/probes/try-again.ts';
import { stepsOfScript, writeVerbatim } from '../propose/write-script.ts';
import { cloneAgain } from './clone-again.ts';
import type { ExtraRun, FirstRun } from './extra-run.ts';
import type { RehearsalPlan } from './plan.ts';
import { hazardFactsOf, runScript } from './propose/prove-script.ts';
import { type CloneRun, openWire } from './run-on-clone.ts';

// The statement after which a probe has another result. If several of the command's statements may be the cause, they are sent once more to
// a second clone, and the probes that differ are tried after each of them.

/** A second clone is made for this unasked only if it costs next to nothing. */
const CHEAP = { cloneMs: 3_000, stallMs: 500, commandMs: 5_000, statements: 200, trials: 1_000 } as const;
const BUDGET_MS = 10_000;

/** The causes of probes that differ, and that no other hazard explains. */
export const PROBE_CAUSES: ExtraRun = {
  path: 'hazards',
  isAsked: findsCauses,
  run: async (first) => {
    const probes = openProbes(first);
    if (probes.length === 0) return {};
    const made: Made = { runs: [], touched: [] };
    const causes = await measuredOrReason(() => findCauses(first, probes, made));
    return isUnmeasured(causes) ? made : { ...made, causes };
  },
};

/** Tells if a second clone may be made for that. */
export function findsCauses({ proxy }: RehearsalPlan): boolean {
  return proxy.observe === 'exact';
}

/** Returns the probes whose cause may be one of several statements, if finding it is cheap. */
function openProbes({ setup: { clone }, prepared, ran, after }: FirstRun): ProbeDifference[] {
  const { exitCode, durationMs } = ran.result;
  const { assessment } = prepared.choice;
  const { probes } = after.observed.catalogue.effects;
  const isCheap =
    clone.durationMs <= CHEAP.cloneMs &&
    assessment.stallMs <= CHEAP.stallMs &&
    clone.service === undefined &&
    clone.method !== 'external' &&
    !assessment.endsSessions &&
    durationMs <= CHEAP.commandMs;
  if (probes.length === 0 || exitCode !== 0 || !isCheap) return [];
  const facts = hazardFactsOf({ ...after, exitCode });
  // What all databases of a server share cannot be made twice.
  if ([...facts.parsed.values()].some(({ effect }) => effect === 'cluster')) return [];
  const context = new HazardContext(facts);
  const told = new Set(
    findHazards(facts)
      .filter(({ code, statement }) => isTried(code) && statement === null)
      .map(({ relation }) => relation),
  );
  const open = probes.filter((probe) => told.has(probe.relation) && causesOf(context, probe).length > 1);
  const most = facts.statements.length > CHEAP.statements ? 0 : CHEAP.trials / facts.statements.length;
  return open.slice(0, Math.floor(most));
}

/** Effects that count even if the rest fails. */
interface Made {
  readonly runs: CloneRun[];
  readonly touched: string[];
}

/** @param made gets the run on the second clone, and what making that did to the target's server. */
async function findCauses(
  { setup, prepared, after }: FirstRun,
  probes: readonly ProbeDifference[],
  made: Made,
): Promise<ReadonlyMap<ProbeDifference, number>> {
  const { sent, sessions } = after.seen;
  const context = new HazardContext(hazardFactsOf({ ...after, exitCode: 0 }));
  const steps = stepsOfScript((await writeVerbatim({ context, sent, sessions })).parts);
  const { plan } = setup;
  const light = { ...plan, proxy: { ...plan.proxy, observe: 'sampled' as const } };
  // The statements are sent by this process, which is in no sandbox.
  const second = { ...(await cloneAgain(setup, prepared)), plan: light, sandbox: UNWATCHED };
  made.touched.push(...second.clone.touched.map((what) => `${what} (second clone)`));
  const deadline = performance.now() + BUDGET_MS;
  const causes = new Map<ProbeDifference, number>();
  const wire = await openWire(second, prepared.command);
  const ran = await runScript(
    second,
    steps.map(({ sql }) => sql),
    wire,
    async (session, at) => {
      const { statement = null, isInside = false } = steps[at] ?? {};
      if (statement === null) return;
      if (performance.now() > deadline) throw new Error('the time is over');
      for (const probe of probes) {
        const differs = await differsAgain(session, probe, isInside);
        if (!differs) causes.delete(probe);
        else if (!causes.has(probe)) causes.set(probe, statement);
      }
    },
  );
  made.runs.push(ran);
  return ran.failure === null ? causes : new Map();
}
