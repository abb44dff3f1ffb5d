import { SafemigrateError } from '../errors.ts';
import { formatBytes, formatDuration } from '../format.ts';
import { whyNoState } from '../ownership/state-files.ts';
import { archive } from './archive.ts';
import { basebackup } from './basebackup.ts';
import type { MethodId } from './clone-settings.ts';
import { cluster } from './cluster.ts';
import { dump } from './dump.ts';
import { external } from './external.ts';
import type { Assessment, CloneContext, CloneMethod, Impossible, Possible } from './method.ts';
import { serviceNamed } from './services/service-list.ts';
import { serviceMethod } from './services/service-method.ts';
import { template } from './template.ts';

/**
 * Stages of the search. A later stage is assessed only if no method of an earlier one works without ending sessions: an external
 * clone is the user's wish, and files are copied sooner than rows are sent. Looking for client programs takes 0.1 s of 0.2 s.
 */
const STAGES: readonly (readonly CloneMethod[])[] = [[external], [cluster, template], [dump, basebackup]];

/** Only one method clones as of another time, and services are asked only by name. */
async function stagesOf({ options }: CloneContext, wanted: 'auto' | MethodId): Promise<typeof STAGES> {
  const service = await serviceNamed(wanted);
  if (service !== undefined) return [[serviceMethod(service)]];
  return options.at === null ? STAGES : [[archive]];
}

export interface Choice {
  readonly method: CloneMethod;
  readonly assessment: Possible;
  /** Every method that was assessed, in the order of preference: the chosen one comes first. */
  readonly considered: readonly Considered[];
}

export interface Considered {
  readonly method: CloneMethod;
  readonly assessment: Assessment;
}

/**
 * Chooses the method that disturbs the target least, and of equals the fastest; a method that the user named is used or refused.
 * @throws SafemigrateError `CLONE` with the reason of each method, and what would help.
 */
export async function chooseMethod(context: CloneContext, wanted: 'auto' | MethodId): Promise<Choice> {
  const considered: Considered[] = [];
  for (const stage of await stagesOf(context, wanted)) {
    considered.push(...(await assessStage(stage, context, wanted)));
    if (considered.some(({ assessment }) => assessment.possible && !assessment.endsSessions)) break;
  }
  const sorted = byPreference(considered);
  const [best] = sorted;
  if (best?.assessment.possible) {
    const why = wanted === 'auto' ? whyChosen(sorted) : '';
    const reason = [best.assessment.reason, ...(why === '' ? [] : [why])].join('; ');
    return { method: best.method, assessment: { ...best.assessment, reason }, considered: sorted };
  }
  throw new SafemigrateError('CLONE', `No clone can be made here:\n${sorted.map(explain).join('\n')}`, {
    hint: 'The target was not touched. `safemigrate doctor` shows all ways and what they need.',
  });
}

/** Explains what the isolation of the clone had to do with the choice; empty if nothing. @param sorted in the order of preference. */
export function whyChosen(sorted: readonly Assessed[]): string {
  const [best, ...others] = sorted;
  if (!best?.assessment.possible || best.assessment.asked) return '';
  if (best.assessment.containment === 'sandbox') {
    const { readyMs } = best.assessment;
    const sooner = others.find(
      ({ assessment }) => assessment.possible && !assessment.endsSessions && assessment.readyMs < readyMs,
    );
    return sooner
      ? `preferred to ${sooner.method.id}, which would be ready sooner, because it is isolated`
      : '';
  }
  const reasons = others.flatMap((other) => whyNotIsolated(other));
  return reasons.length > 0 ? `nothing isolated was chosen, because ${reasons.join('; ')}` : '';
}

function whyNotIsolated({ method: { id }, assessment }: Assessed): string[] {
  if (id !== 'cluster') return [];
  if (!assessment.possible) return [`${id} is impossible: ${assessment.reason}`];
  return assessment.containment === 'sandbox'
    ? [`${id} would be ready in ${formatDuration(assessment.readyMs)} only`]
    : [`this machine permits no sandbox for ${id}`];
}

/** Assesses all of the wanted methods, one after the other, and returns them in the order of preference. */
export async function assessMethods(context: CloneContext, wanted: 'auto' | MethodId): Promise<Considered[]> {
  const stages = await stagesOf(context, wanted);
  return byPreference(await assessStage(stages.flat(), context, wanted));
}

async function assessStage(
  stage: readonly CloneMethod[],
  context: CloneContext,
  wanted: 'auto' | MethodId,
): Promise<Considered[]> {
  const considered: Considered[] = [];
  for (const method of stage)
    if (wanted === 'auto' || method.id === wanted)
      considered.push({ method, assessment: await assess(method, context, wanted) });
  return considered;
}

async function assess(
  method: CloneMethod,
  context: CloneContext,
  wanted: 'auto' | MethodId,
): Promise<Assessment> {
  const assessment =
    bringsRows(method, context) ??
    hasOneDatabase(method, context) ??
    (await unrecorded(method)) ??
    (await method.assess(context));
  // A user who names the method accepts what it copies.
  return wanted === 'auto' ? withinLimit(assessment, method.id, context.options.maxCopyBytes) : assessment;
}

/** Refuses a method that copies all rows if the user leaves some out: they may be rows that must not be in a clone. */
function bringsRows({ leavesOutRows }: CloneMethod, { options }: CloneContext): Impossible | undefined {
  if (leavesOutRows || (!options.schemaOnly && options.excludeTableData.length === 0)) return undefined;
  return {
    possible: false,
    reason: 'it brings all rows, and --schema-only or SAFEMIGRATE_EXCLUDE_TABLE_DATA leaves some out',
    enable: 'leave these options out',
  };
}

/** Refuses a method that clones the target alone if the user names other databases. */
function hasOneDatabase({ clonesOthers }: CloneMethod, { options }: CloneContext): Impossible | undefined {
  if (clonesOthers || options.databases.length === 0) return undefined;
  return {
    possible: false,
    reason: 'it clones the target only, and --database names another database',
    enable: 'leave --database out',
  };
}

/** Refuses a method that could not be recorded on this machine: only databases in the target's server are found without that. */
async function unrecorded({ id }: CloneMethod): Promise<Impossible | undefined> {
  const why = id === 'template' ? undefined : await whyNoState();
  if (why === undefined) return undefined;
  return {
    possible: false,
    reason: `the state folder, in which clones are recorded, cannot be used: ${why}`,
    enable: 'set XDG_STATE_HOME to a folder that you can write to',
  };
}

function explain({ method, assessment }: Considered): string {
  if (assessment.possible) return '';
  const enable = assessment.enable ? `\n    What would help: ${assessment.enable}` : '';
  return `  ${method.id}: ${assessment.reason}${enable}`;
}

/** The facts of an assessed method that decide its rank. */
export interface Assessed {
  readonly method: { readonly id: MethodId };
  readonly assessment: Assessment;
}

/**
 * Sorts methods by preference: first those that the user has configured, then those that end no session on the target, then
 * those that are ready soonest; impossible ones come last. A sandboxed one may be ready later than others: by a second if it
 * copies bytes, by a minute if it shares all blocks with the target and so costs nothing but this time.
 */
export function byPreference<T extends Assessed>(found: readonly T[]): T[] {
  return [...found].sort((one, other) => compare(one.assessment, other.assessment));
}

function compare(one: Assessment, other: Assessment): number {
  if (!one.possible || !other.possible) return Number(other.possible) - Number(one.possible);
  return (
    Number(other.asked ?? false) - Number(one.asked ?? false) ||
    Number(one.endsSessions) - Number(other.endsSessions) ||
    rankedMs(one) - rankedMs(other)
  );
}

/** Nothing that a command does in a sandbox can reach the target: that is worth some waiting. */
const SANDBOX_WORTH_MS = { copied: 1_000, shared: 60_000 } as const;

function rankedMs({ readyMs, containment, bytes }: Possible): number {
  if (containment !== 'sandbox') return readyMs;
  return readyMs - SANDBOX_WORTH_MS[bytes === 0 ? 'shared' : 'copied'];
}

/** Refuses a full copy above --limit copy, which a user should decide on. */
export function withinLimit(assessment: Assessment, id: MethodId, maxCopyBytes: number): Assessment {
  if (!assessment.possible || assessment.bytes <= maxCopyBytes) return assessment;
  const size = formatBytes(assessment.bytes);
  return {
    possible: false,
    reason: `${size} would be copied in full (${assessment.strategy}), and --limit copy is ${formatBytes(maxCopyBytes)}`,
    enable: `--clone ${id}, or --limit copy above ${size}`,
  };
}
