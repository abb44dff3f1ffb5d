import { formatBytes, formatDuration } from '../format.ts';
import type {
  Caveat,
  CommandSection,
  DataSection,
  ForecastSection,
  SchemaSection,
  StatementSection,
} from '../model/report.ts';
import { type HeldLock, longestLocks } from './held-locks.ts';
import { durationFlag, lockFlag, sizeFlag } from './override-flags.ts';
import { isMeant, type LockLimit, type Policy } from './policy.ts';

/** What budgets are about. */
export interface Spent {
  readonly command: CommandSection;
  readonly statements: readonly StatementSection[];
  readonly schema: Pick<SchemaSection, 'changes'> | null;
  readonly data: Pick<DataSection, 'walBytes'> | null;
  readonly forecast: Pick<ForecastSection, 'disk'> | null;
  readonly caveats: readonly Caveat[];
}

/** Every budget that was overdrawn, or that could not be checked; each with the option that would allow it. */
export function budgetReasons(spent: Spent, policy: Policy): string[] {
  const { maxDurationMs, maxWalBytes, maxDiskBytes } = policy;
  const { durationMs } = spent.command;
  return [
    ...(maxDurationMs !== undefined && durationMs > maxDurationMs
      ? [
          `the command took ${formatDuration(durationMs)}, and the limit is ${formatDuration(maxDurationMs)}; ` +
            `to allow it: ${durationFlag(durationMs)}`,
        ]
      : []),
    ...lockReasons(spent, policy.maxLocks),
    ...sizeReasons('max-wal', spent.data?.walBytes ?? null, maxWalBytes),
    ...sizeReasons('max-disk', spent.forecast?.disk.neededBytes ?? null, maxDiskBytes),
  ];
}

const NEEDS = {
  'max-wal': { what: 'the WAL that the command writes', needs: 'the command wrote', of: 'of WAL' },
  'max-disk': { what: 'the disk space needed', needs: 'the target would need', of: 'of disk space' },
} as const;

function sizeReasons(option: keyof typeof NEEDS, bytes: number | null, max: number | undefined): string[] {
  const { what, needs, of } = NEEDS[option];
  if (max === undefined || (bytes !== null && bytes <= max)) return [];
  if (bytes === null) return [`${what} could not be measured, so that --${option} cannot be checked`];
  return [
    `${needs} ${formatBytes(bytes)} ${of}, and the limit is ${formatBytes(max)}; ` +
      `to allow it: ${sizeFlag(option, bytes)}`,
  ];
}

function lockReasons({ statements, schema, caveats }: Spent, allowed: readonly LockLimit[]): string[] {
  if (allowed.length === 0) return [];
  const unseen = caveats.find(({ path, kind }) => path === 'statements' && kind === 'unmeasured');
  if (unseen) return [`--max-lock cannot be checked: ${unseen.reason}`];
  return longestLocks(statements, schema).flatMap((lock) => {
    const limit = limitOf(lock, allowed);
    return limit === undefined ? [] : lockReason(lock, limit);
  });
}

function limitOf({ relation, mode }: HeldLock, allowed: readonly LockLimit[]): LockLimit | undefined {
  const ofMode = allowed.filter((limit) => limit.mode === mode);
  const own = ofMode.find((limit) => limit.relation !== undefined && isMeant(limit.relation, relation));
  return own ?? ofMode.find((limit) => limit.relation === undefined);
}

function lockReason({ relation, mode, heldMs, statement }: HeldLock, { maxMs }: LockLimit): string[] {
  const held = `${mode} on ${relation} (statement ${statement})`;
  if (heldMs === null)
    return [`for how long ${held} was held is not known, so that --max-lock cannot be checked`];
  if (heldMs <= maxMs) return [];
  return [
    `${held} was held for ${formatDuration(heldMs)}, and the limit is ${formatDuration(maxMs)}; ` +
      `to allow it: ${lockFlag(relation, mode, heldMs)}`,
  ];
}
