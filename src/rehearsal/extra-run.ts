import type { ProbeDifference } from '../model/probe-difference.ts';
import type { Caveat, Report, StatementSection } from '../model/report.ts';
import type { Checked, ChecksBefore } from '../observe/checks/check-watch.ts';
import type { Contents, readContents } from '../observe/checks/contents.ts';
import type { CloneObservations } from '../observe/clone-observations.ts';
import type { CloneWatch } from '../observe/clone-watch.ts';
import type { SeenStatements } from '../observe/command-watch.ts';
import type { ProbesBefore } from '../observe/probes/probe-watch.ts';
import type { TargetState } from '../proof/target-state.ts';
import type { ScriptChange } from '../propose/write-script.ts';
import type { LoadSource } from './load-traffic.ts';
import type { RehearsalPlan } from './plan.ts';
import type { RehearsalContext } from './prepare.ts';
import type { CloneRun, CloneSetup, OpenGuarded, OpenWire } from './run-on-clone.ts';

/** The contents of the clone's tables before the command, by the further run that needs them. */
export interface ContentsBefore {
  /** Without those that could not be read. */
  readonly contents: ReadonlyMap<string, Contents>;
  readonly caveats: readonly Caveat[];
}

/** All that was read before the command ran. */
export interface BeforeCommand {
  readonly watch: CloneWatch;
  readonly checks: ChecksBefore;
  readonly probes: ProbesBefore;
  readonly contents: ContentsBefore;
  /** The target right before the command. */
  readonly start: TargetState;
  readonly open: OpenWire;
}

/** All that was read after it. */
export interface AfterCommand {
  readonly observed: CloneObservations;
  readonly seen: SeenStatements;
  readonly checked: Checked;
}

/** The one run of the command that every rehearsal has, and all that was read before and after it. */
export interface FirstRun {
  readonly setup: CloneSetup;
  readonly prepared: RehearsalContext;
  readonly before: BeforeCommand;
  readonly ran: CloneRun;
  readonly after: AfterCommand;
  /** Opens a guarded run under load; null: no apply is to follow. */
  readonly openGuarded: OpenGuarded | null;
}

/** A thing that is asked for beside the first run, nearly always another run of the command. A new one is a line in EXTRA_RUNS. */
export interface ExtraRun {
  /** Its section of the report. */
  readonly path: string;
  isAsked(plan: RehearsalPlan): boolean;
  /** The way in which it needs the clone's tables read before the command; missing: it does not. */
  readonly contents?: NonNullable<Parameters<typeof readContents>[1]>;
  /** Does it. The caveats say what could not be done; only a lost connection or an interrupt ends the rehearsal. */
  run(first: FirstRun, soFar: ExtraResults): Promise<Partial<ExtraResults>>;
}

export interface ExtraResults {
  readonly sections: Partial<
    Pick<Report, 'script' | 'atOnce' | 'proposal' | 'rerun' | 'down' | 'app' | 'load'>
  >;
  /** Each run that was begun: what it did to the target counts, even if the rest failed. */
  readonly runs: readonly CloneRun[];
  /** The statements of runs on the first clone. */
  readonly statements: readonly StatementSection[];
  readonly caveats: readonly Caveat[];
  /** The load that was played, and the names of the tables that were in memory before it. */
  readonly played?: { readonly source: LoadSource; readonly tables: readonly string[] };
  /** The statement after which each of these probes differs. */
  readonly causes?: ReadonlyMap<ProbeDifference, number>;
  /** Changes that a safer form would make, if none was asked for. */
  readonly saferForms?: readonly ScriptChange[];
  /** Effects on the target's server of making a clone that was not asked for. */
  readonly touched?: readonly string[];
  /** The statements of a safer form that is proved. */
  readonly proved?: readonly string[];
}
