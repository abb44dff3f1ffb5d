import { formatBytes, formatCount, formatDuration } from '../format.ts';
import type {
  Caveat,
  CommandSection,
  DataSection,
  ForecastSection,
  LoadSection,
  SchemaSection,
  StatementSection,
} from '../model/report.ts';
import { timeWords } from './evidence.ts';
import { type HeldLock, longestLocks } from './held-locks.ts';
import { durationFlag, lockFlag, refersTo, sizeFlag } from './policy.ts';
import type { LockLimit, Policy } from './policy-settings.ts';

/** The measurements that budgets limit. */
export interface Spent {
  readonly command: CommandSection;
  readonly statements: readonly StatementSection[];
  readonly schema: Pick<SchemaSection, 'changes'> | null;
  readonly data: Pick<DataSection, 'walBytes'> | null;
  readonly forecast: Pick<ForecastSection, 'disk'> | null;
  readonly load: LoadSection | null;
  readonly caveats: readonly Caveat[];
}

/** A reason for each budget that was exceeded, with the option that would allow it. A budget that could not be measured counts as exceeded. */
export function budgetReasons(spent: Spent, policy: Policy): string[] {
  const { maxDurationMs, maxWalBytes, maxDiskBytes } = policy;
  const { durationMs } = spent.command;
  return [
    ...(maxDurationMs !== null && durationMs > maxDurationMs
      ? [
          `the command took ${formatDuration(durationMs)}, but the limit is ${formatDuration(maxDurationMs)}; ` +
            `to allow it: ${durationFlag(durationMs)}`,
        ]
      : []),
    ...lockReasons(spent, policy.maxLocks),
    ...sizeReasons('wal', spent.data?.walBytes ?? null, maxWalBytes),
    ...sizeReasons('disk', spent.forecast?.disk.neededBytes ?? null, maxDiskBytes),
    ...loadBudgetReasons(spent.load, policy),
  ];
}

/** Without a run under load, what it would have measured counts as exceeded. If an apply is to follow, the run with its guardrails counts. */
function loadBudgetReasons(
  measured: LoadSection | null,
  { maxBlockedSecondsMs, maxLatencyMs, maxFailures }: Policy,
): string[] {
  const load = measured?.guarded ?? measured;
  const limits = [
    {
      flag: '--limit blocked-seconds',
      what: 'sessions waited behind the command for',
      value: load?.blockedMs,
      max: maxBlockedSecondsMs,
      format: formatDuration,
    },
    {
      flag: '--limit latency',
      what: 'the latency of 95 % of the transactions under load was',
      value: load?.during.p95Ms ?? (load ? 0 : undefined),
      max: maxLatencyMs,
      format: formatDuration,
    },
    {
      flag: '--limit failures',
      what: 'the number of transactions that failed under load was',
      value: load && load.during.failures + load.after.failures,
      max: maxFailures,
      format: formatCount,
    },
  ];
  return limits.flatMap(({ flag, what, value, max, format }) => {
    if (max === null) return [];
    if (value === undefined || value === null)
      return [`${flag} counts as exceeded, because there was no run under load (--load)`];
    return value <= max ? [] : [`${what} ${format(value)}, but the limit is ${format(max)} (${flag})`];
  });
}

const NEEDS = {
  wal: { what: 'the WAL that the command writes', needs: 'the command wrote', of: 'of WAL' },
  disk: { what: 'the disk space needed', needs: 'the target would need', of: 'of disk space' },
} as const;

function sizeReasons(option: keyof typeof NEEDS, bytes: number | null, max: number | null): string[] {
  const { what, needs, of } = NEEDS[option];
  if (max === null || (bytes !== null && bytes <= max)) return [];
  if (bytes === null) return [`${what} could not be measured, so --limit ${option} counts as exceeded`];
  return [
    `${needs} ${formatBytes(bytes)} ${of}, but the limit is ${formatBytes(max)}; ` +
      `to allow it: ${sizeFlag(option, bytes)}`,
  ];
}

const NEEDED_FOR_LOCKS: ReadonlySet<string> = new Set(['statements', 'statements[].durationMs']);

function lockReasons({ statements, schema, caveats }: Spent, allowed: readonly LockLimit[]): string[] {
  if (allowed.length === 0) return [];
  const unseen = caveats.find(({ path, kind }) => NEEDED_FOR_LOCKS.has(path) && kind === 'unmeasured');
  if (unseen) return [`--limit lock counts as exceeded: ${unseen.reason}`];
  return longestLocks(statements, schema).flatMap((lock) => {
    const limit = limitOf(lock, allowed);
    return limit === undefined ? [] : lockReason(lock, limit);
  });
}

function limitOf({ relation, mode }: HeldLock, allowed: readonly LockLimit[]): LockLimit | undefined {
  const ofMode = allowed.filter((limit) => limit.mode === mode);
  const own = ofMode.find((limit) => limit.relation !== undefined && refersTo(limit.relation, relation));
  return own ?? ofMode.find((limit) => limit.relation === undefined);
}

function lockReason(
  { relation, mode, heldMs, statement, atProductionSize }: HeldLock,
  { maxMs }: LockLimit,
): string[] {
  const held = `${mode} on ${relation} (statement ${statement})`;
  if (heldMs === null)
    return [`how long ${held} was held could not be measured, so --limit lock counts as exceeded`];
  if (heldMs <= maxMs) return [];
  return [
    `${held} ${atProductionSize ? 'would be' : 'was'} held for ${timeWords(heldMs, atProductionSize)}, but the limit is ${formatDuration(maxMs)}; ` +
      `to allow it: ${lockFlag(relation, mode, heldMs)}`,
  ];
}
