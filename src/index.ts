import { makeApplyPlan } from './apply/apply-plan.ts';
import type { ApplyOptions } from './apply/apply-settings.ts';
import { performApply } from './apply/perform-apply.ts';
import type { Profile } from './model/profile-model.ts';
import type { Report } from './model/report.ts';
import { describeStatements, type PlannedStatements } from './rehearsal/describe-plan.ts';
import { ignore, makeRehearsalPlan } from './rehearsal/plan.ts';
import type { RehearseOptions } from './rehearsal/rehearsal-settings.ts';
import { performRehearsal } from './rehearsal/rehearse.ts';
import type { ReportFormat } from './report/formats.ts';
import type { TextStyle } from './report/text-layout.ts';
import type { SwapOptions } from './swap/swap-settings.ts';

export type { ApplyOptions } from './apply/apply-settings.ts';
export { type ErrorCode, SafemigrateError } from './errors.ts';
export type { Emit, Phase, RunEvent } from './events.ts';
export type { Profile } from './model/profile-model.ts';
export type { PrintedReport, Report } from './model/report.ts';
export type { Audit, AuditEntry } from './postgres/connection/audit.ts';
export type { PlannedStatements } from './rehearsal/describe-plan.ts';
export type { RehearseOptions } from './rehearsal/rehearsal-settings.ts';
export type { ReportFormat } from './report/formats.ts';
export type { TextStyle } from './report/text-layout.ts';
export type { SwapOptions } from './swap/swap-settings.ts';

/**
 * Rehearses a migration command on a clone of its target, and cleans up however it ends.
 * @throws SafemigrateError if there is nothing to report on: the command was never started, or the server was lost.
 */
export async function rehearse(options: RehearseOptions): Promise<Report> {
  return performRehearsal(makeRehearsalPlan(options));
}

/**
 * Rehearses, and runs the command on the target itself if the rehearsal passed and still holds. A receipt replaces the
 * rehearsal. @throws SafemigrateError as rehearse(); `REFUSED`; `TARGET_CHANGED` if the outcome of the command is not known
 */
export async function apply(options: ApplyOptions): Promise<Report> {
  return performApply(makeApplyPlan(options));
}

/** Lists what a rehearsal would do to the target's server. It changes nothing: what it sends only reads. */
export async function planRehearsal(options: RehearseOptions): Promise<PlannedStatements> {
  return describeStatements(makeRehearsalPlan(options));
}

/**
 * Rehearses, migrates a clone while the target is closed, and renames it to the target, if `confirm` agrees. With
 * `online.enabled` the target is open while the clone is migrated.
 * @throws SafemigrateError as rehearse(); `REFUSED`; `TARGET_CHANGED` if the target could not be reopened as it was
 */
export async function swap(options: SwapOptions): Promise<Report> {
  const { makeSwapPlan } = await import('./swap/swap-plan.ts');
  const { performSwap } = await import('./swap/perform-swap.ts');
  return performSwap(makeSwapPlan(options));
}

/** The ways to clone a target; the other facts are those of `safemigrate doctor --format json`. */
export interface Diagnosis {
  /** The clone method that a rehearsal would take; null: none is possible. */
  readonly taken: string | null;
  readonly methods: readonly {
    readonly method: string;
    readonly possible: boolean;
    /** Why it is possible or impossible here. */
    readonly reason: string;
    /** The change that would make it possible. */
    readonly enable?: string | undefined;
  }[];
  readonly [fact: string]: unknown;
}

/** Finds out which ways to clone work for a target, and why the others do not. It changes nothing. @throws SafemigrateError */
export async function doctor(options: Omit<RehearseOptions, 'command'> = {}): Promise<Diagnosis> {
  const { diagnose, printedDiagnosis } = await import('./doctor/examine.ts');
  return printedDiagnosis(await diagnose(makeRehearsalPlan({ ...options, command: [] })));
}

export interface ProfileOptions
  extends Pick<RehearseOptions, 'target' | 'env' | 'folder' | 'audit' | 'signal'> {
  /** Time between the two readings of the statistics; 0: their average alone. Default: 10 s. */
  readonly windowMs?: number;
  /** Signs the profile. */
  readonly key?: string;
}

/** Reads production's sizes and rates. Written to a file as JSON, the profile is one for `--profile`. @throws SafemigrateError */
export async function profile(options: ProfileOptions = {}): Promise<Profile> {
  const { target = {}, env = process.env, folder = process.cwd(), windowMs = 10_000, key } = options;
  const { audit = ignore, signal = new AbortController().signal } = options;
  const { locateTarget } = await import('./database/locate.ts');
  const { readEnvironment } = await import('./postgres/connection/environment.ts');
  const { sealedProfile } = await import('./rehearsal/profile/profile-file.ts');
  const { takeProfile } = await import('./rehearsal/profile/take-profile.ts');
  const located = locateTarget(target, readEnvironment(env, folder));
  return JSON.parse(sealedProfile(await takeProfile(located, windowMs, audit, signal), key)) as Profile;
}

const PLAIN: TextStyle = { columns: 80, colour: false, unicode: true };

/** Renders a report as a string that ends in a newline. @param style of the format `text`. */
export async function renderReport(
  report: Report,
  format: ReportFormat,
  style: Partial<TextStyle> = {},
): Promise<string> {
  const { render } = await import('./report/render.ts');
  return render(report, format, { ...PLAIN, ...style });
}

/** Returns the report as it may be shown outside: without literals, values of rows, and names of hosts. */
export async function redact(report: Report): Promise<Report> {
  const { redactReport } = await import('./observe/redact-report.ts');
  return redactReport(report);
}
