import { resolve } from 'node:path';
import { inClone } from '../../clone/own-sessions.ts';
import { UNWATCHED } from '../../command/sandbox/command-sandbox.ts';
import { inPhase } from '../../events.ts';
import { findHazards } from '../../hazards/catalogue.ts';
import { neededBytes } from '../../hazards/forecast.ts';
import { HazardContext } from '../../hazards/hazard-context.ts';
import { isUnmeasured, measured, measuredOrReason } from '../../measured.ts';
import type { LoadedRunSection } from '../../model/load-model.ts';
import type { Caveat, Hazard, ProposalMeasures, ProposalSection } from '../../model/report.ts';
import { CloneWatch } from '../../observe/clone-watch.ts';
import { readColumnsBefore, readRelationsBefore } from '../../observe/tables-before.ts';
import { askedForms } from '../../propose/asked-forms.ts';
import { migrationsIn } from '../../propose/formats/recorded-migration.ts';
import { keptStatements } from '../../propose/kept-statements.ts';
import { type Forms, isScripted, reasonToStay } from '../../propose/scripted-hazards.ts';
import type { Before } from '../../propose/subject.ts';
import {
  insteadOf,
  type ScriptChange,
  statementsOfScript,
  type WrittenScript,
  writeScript,
} from '../../propose/write-script.ts';
import { cloneAgain, contentsOf } from '../clone-again.ts';
import type { ExtraResults, ExtraRun } from '../extra-run.ts';
import { recordedTransactions } from '../load-traffic.ts';
import { openGate, readHarmless } from '../open-gate.ts';
import type { RehearsalContext } from '../prepare.ts';
import { type CloneRun, type CloneSetup, openWire } from '../run-on-clone.ts';
import { measureUnderLoad } from '../run-under-load.ts';
import { openSchemaReader } from '../with-scope.ts';
import { formsNoBetter, longestBlocked } from './compare-locks.ts';
import { keepProposal, proposedMigrations, withFileNames } from './keep-proposal.ts';
import { hazardFactsOf, prove, type Run, runScript } from './prove-script.ts';

// The safer form (--propose), in the order of its steps:
//
//   keptStatements     what the command sent, if a script can have it
//   cloneAgain         a clone as the command got one
//   writeScript        these statements, with a safer form of what the hazards were found in
//   runScript          on that clone, observed as the command is
//                      a form that fails is left out, and the rest is tried on a fresh clone: a transaction whose locks cannot be taken
//                      first is divided
//   prove              the same schema, the same rows, and none of these hazards
//   measureUnderLoad   with --load: once more on a third clone
//   keepProposal       the file is written, or the folder in a tool's own format

/** The run of the command that the proposal is to equal. */
interface OriginalRun extends Run {
  readonly durationMs: number;
}

/** A safer form of what the command did (`--propose`), proved on a second clone. */
export const PROPOSAL: ExtraRun = {
  path: 'proposal',
  isAsked: ({ propose }) => propose !== null,
  contents: { all: true },
  run: ({ setup, prepared, before, ran, after }, { played }) => {
    const { exitCode, durationMs } = ran.result;
    const contents = before.contents.contents.get('proposal') ?? null;
    const original = { ...after, setup, before: contents, exitCode, durationMs };
    const file = resolve(setup.plan.command.folder, setup.plan.propose ?? '');
    const work = async () => {
      const runs: CloneRun[] = [];
      const made = await measuredOrReason(() =>
        makeProposal(setup, prepared, { original, runs, file, played }),
      );
      if (isUnmeasured(made)) return { sections: { proposal: refused(original, [made.unmeasured]) }, runs };
      return { sections: { proposal: made.section }, runs, proved: made.statements };
    };
    const hasFailed = ({ sections }: Awaited<ReturnType<typeof work>>) =>
      sections.proposal.outcome === 'refused';
    return inPhase(setup.context.emit, 'propose', work, hasFailed);
  },
};

interface Request {
  readonly original: OriginalRun;
  /** Gets each run that was begun: what it did to the target counts, even if the rest fails. */
  readonly runs: CloneRun[];
  readonly file: string;
  readonly played: ExtraResults['played'];
}

/** @returns the section, and the statements of the script if it is proved. */
async function makeProposal(
  setup: CloneSetup,
  prepared: RehearsalContext,
  request: Request,
): Promise<{ section: ProposalSection; statements: readonly string[] }> {
  const { original, file, played } = request;
  const without = (section: ProposalSection) => ({ section, statements: [] });
  if (original.exitCode !== 0) return without(refused(original, ['the command did not succeed']));
  if (setup.plan.proxy.observe !== 'exact')
    return without(
      refused(original, ['statements were not observed one by one (SAFEMIGRATE_OBSERVE=exact)']),
    );
  const { source = null } = played ?? {};
  const profile = prepared.profile?.profile ?? null;
  const recorded = recordedTransactions(source, profile);
  const facts = { ...hazardFactsOf(original, profile), recorded };
  const found = findHazards(facts);
  const { proposeAll, proposeFormat: format } = setup.plan;
  const forms = { all: proposeAll, version: setup.context.target.server.version };
  const scripted = found.filter(({ code }) => isScripted(code, forms));
  const staying = stayingIn(found, forms);
  const { sent, sessions } = original.seen;
  const recording = { context: new HazardContext(facts), sent, sessions };
  if (scripted.length === 0) {
    const before = await readFactsBefore(setup, recording.context);
    const left = [...staying, ...(await askedForms(recording, before, found, forms))];
    return without({ ...empty(original), left });
  }
  const kept = await keptStatements(recording, scripted, 'safer');
  const { folder } = setup.plan.command;
  const sections = format === 'plain' ? null : withFileNames(migrationsIn(kept, format), format, folder);
  const failed = new Map<number, string>();
  // The costs of a script that is not offered.
  let unused: ProposalMeasures | null = null;
  for (;;) {
    const second = await anotherClone(setup, prepared);
    const before = await readFactsBefore(second, recording.context);
    const stay = [...staying, ...(await askedForms(recording, before, found, forms))];
    const given = { scripted, staying: stay, failed };
    const migrations = sections && proposedMigrations(recording, before, sections, given);
    const script = writeScript(recording, before, kept, scripted, stay, failed);
    const [changes, left] = [[...script.changes], [...script.left]];
    if (changes.length === 0) return without({ ...empty(original), left, safer: unused });
    const tried = await tryScript(second, prepared, request, { script, found });
    const section = { ...tried.section, changes, left };
    const { parts } = script;
    const culprit = tried.failure ? insteadOf(parts, tried.failure.at) : undefined;
    const isRetried = failed.size < MOST_LEFT_OUT;
    if (tried.failure && culprit !== undefined && isRetried) {
      failed.set(culprit, `its safer form failed: ${tried.failure.message}`);
      continue;
    }
    if (tried.noBetter.size > 0 && isRetried) {
      for (const [index, words] of tried.noBetter) failed.set(index, words);
      unused = tried.section.safer;
      continue;
    }
    if (section.outcome !== 'proved' && script.lockedFirst.length > 0 && isRetried) {
      for (const index of script.lockedFirst) failed.set(index, section.reasons.join('; '));
      continue;
    }
    if (section.outcome !== 'proved') return without(section);
    await keepProposal(setup, { file, parts, tolerated: section.tolerated, migrations });
    return { section, statements: statementsOfScript(parts) };
  }
}

/** Safer forms that fail, and are left out before the rest is tried on another clone: each try costs a clone and a run. */
const MOST_LEFT_OUT = 3;

/** Lists the changes that block others, and stand in the script as they were. */
function stayingIn(found: readonly Hazard[], forms: Forms): ScriptChange[] {
  return found.flatMap(({ statement, code }) => {
    const words = reasonToStay(code, forms);
    return words === null ? [] : [{ statement, codes: [code], words }];
  });
}

/** Reads what no statement shows; on a clone on which the command ran, as it left that. */
export async function readFactsBefore(setup: CloneSetup, context: HazardContext): Promise<Before> {
  const retyped = context.actionsOf('alter type').map(({ action }) => action.column);
  return inClone(setup, async (session) => ({
    relations: await readRelationsBefore(session),
    columns: await readColumnsBefore(session, retyped),
  }));
}

interface Tried {
  readonly section: ProposalSection;
  readonly failure: Awaited<ReturnType<typeof runScript>>['failure'];
  /** Statements whose form blocks others for no shorter time, with the words for it. */
  readonly noBetter: ReadonlyMap<number, string>;
}

async function tryScript(
  second: CloneSetup,
  prepared: RehearsalContext,
  { original, runs, file }: Request,
  { script: { parts, changes, lockedFirst }, found }: { script: WrittenScript; found: readonly Hazard[] },
): Promise<Tried> {
  const watch = new CloneWatch(second.clone, { ...second.context, schema: second.schema });
  const { context, clone, plan } = second;
  const gate = await watch.before((session) => openGate(context, clone, plan.proxy, session));
  const before = await contentsOf(second, { all: true });
  const wire = await openWire(second, prepared.command, { gate });
  const ran = await runScript(second, statementsOfScript(parts), wire);
  runs.push(ran);
  const observed = await watch.after(ran.wire.lockedRelations(), {
    procedures: ran.wire.ranCode(),
    rolledBack: ran.wire.rolledBack(),
  });
  const { tree, data, made, catalogue, procedures } = observed;
  const { searchPath } = catalogue;
  const seen = await ran.wire.statements({ tree, data, made, searchPath, procedures });
  const asked = await watch.withAskedEffects(observed, seen, (session) => readHarmless(clone, session));
  const safer: Run = { setup: second, exitCode: ran.result.exitCode, before, observed: asked, seen };
  const own = {
    safer: measuresOf(safer, ran.result.durationMs),
    statements: seen.statements,
    transactions: seen.transactions,
  };
  const { failure } = ran;
  if (failure !== null)
    return {
      section: { ...refused(original, [`it failed: ${failure.message}`]), ...own },
      failure,
      noBetter: new Map(),
    };
  const compared = formsNoBetter(original.seen.statements, parts, seen.statements);
  // These are about the order of the locks, not about their time.
  const noBetter = new Map([...compared].filter(([index]) => !lockedFirst.includes(index)));
  const taken = found.filter(({ code, statement }) =>
    changes.some((change) => change.statement === statement && change.codes.includes(code)),
  );
  const { reasons, tolerated, ...proof } = await prove(
    original,
    safer,
    found,
    taken,
    prepared.profile?.profile ?? null,
  );
  const against = [...reasons, ...noBetter.values()];
  const section = { ...empty(original), ...own, ...proof, tolerated: [...tolerated] };
  if (against.length > 0)
    return { section: { ...section, outcome: 'refused', reasons: against }, failure, noBetter };
  return { section: { ...section, outcome: 'proved', file }, failure, noBetter };
}

async function anotherClone(setup: CloneSetup, prepared: RehearsalContext): Promise<CloneSetup> {
  const made = await cloneAgain(setup, prepared);
  // The script is run by this process, which is in no sandbox.
  return { ...made, schema: await openSchemaReader(setup.life.scope, setup.plan), sandbox: UNWATCHED };
}

/** The proved script under the load that the command had, if it had one. */
export const PROPOSAL_UNDER_LOAD: ExtraRun = {
  path: 'proposal.safer.load',
  isAsked: ({ propose, load }) => propose !== null && load !== null,
  run: async ({ setup, prepared }, { sections, played, proved = [] }) => {
    const { proposal, load: loaded } = sections;
    const { load } = setup.plan;
    if (!proposal?.safer || proposal.outcome !== 'proved' || !load || !loaded || !played) return {};
    const runs: CloneRun[] = [];
    const caveats: Caveat[] = [];
    const underLoad = await measured(caveats, 'proposal.safer.load', () =>
      measureUnderLoad(
        { ...setup, sandbox: UNWATCHED },
        prepared,
        { load, ...played, quiet: null, runs },
        (setupOfLoaded, observer) => openWire(setupOfLoaded, prepared.command, { observer }),
        (setupOfLoaded, wire) => runScript(setupOfLoaded, proved, wire),
      ),
    );
    if (!underLoad) return { runs, caveats };
    const [original, safer] = [loaded, underLoad.section].map(loadOf);
    const figures = {
      original: { ...proposal.original, load: original ?? null },
      safer: { ...proposal.safer, load: safer ?? null },
    };
    return { sections: { proposal: { ...proposal, ...figures } }, runs };
  },
};

function empty(original: OriginalRun): ProposalSection {
  return {
    outcome: 'none',
    file: null,
    reasons: [],
    changes: [],
    left: [],
    tolerated: [],
    tablesCompared: 0,
    tablesSkipped: 0,
    safer: null,
    statements: [],
    transactions: [],
    original: measuresOf(original, original.durationMs),
  };
}

function refused(original: OriginalRun, reasons: string[]): ProposalSection {
  return { ...empty(original), outcome: 'refused', reasons };
}

function measuresOf(
  { seen: { statements }, observed }: Pick<Run, 'seen' | 'observed'>,
  durationMs: number,
): ProposalMeasures {
  const blocked = longestBlocked(statements);
  return {
    durationMs,
    readsBlockedMs: blocked.reads,
    writesBlockedMs: blocked.writes,
    walBytes: observed.data?.walBytes ?? null,
    diskBytes: neededBytes({ data: observed.data, rewrittenBytes: new Map() }),
    load: null,
  };
}

function loadOf({ someWaitedMs, longestWaitMs, during, after }: LoadedRunSection): ProposalMeasures['load'] {
  return { someWaitedMs, longestWaitMs, failures: during.failures + after.failures };
}
