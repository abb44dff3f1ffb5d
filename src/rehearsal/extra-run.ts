import type { Caveat, Report, StatementSection } from '../model/report.ts';
import type { readContents } from '../observe/checks/contents.ts';
import type { AfterCommand, BeforeCommand } from './clone-steps.ts';
import type { LoadSource } from './load-traffic.ts';
import type { RehearsalPlan } from './plan.ts';
import type { RehearsalContext } from './prepare.ts';
import type { CloneRun, CloneSetup, OpenGuarded } from './run-on-clone.ts';

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
  readonly sections: Partial<Pick<Report, 'script' | 'atOnce' | 'proposal' | 'rerun' | 'down' | 'load'>>;
  /** Each run that was begun: what it did to the target counts, even if the rest failed. */
  readonly runs: readonly CloneRun[];
  /** The statements of runs on the first clone. */
  readonly statements: readonly StatementSection[];
  readonly caveats: readonly Caveat[];
  /** The load that was played, and the names of the tables that were in memory before it. */
  readonly played?: { readonly source: LoadSource; readonly tables: readonly string[] };
  /** The statements of a safer form that is proved. */
  readonly proved?: readonly string[];
}
