import type { Hazard } from '../model/report.ts';
import type { LockMode } from '../postgres/lock-modes.ts';
import { allowFlag } from './override-flags.ts';

/** The rules of a rehearsal. By default, hazards of severity `error` fail it. */
export interface Policy {
  /** Hazards of this severity or a higher one fail the rehearsal. */
  readonly failOn: 'error' | 'warning';
  readonly allow: readonly Allowance[];
  /** `nothing`: a rehearsal fails if the command changes anything but the migration tool's own table. */
  readonly expect?: 'nothing';
  /** A rehearsal fails unless it is proved that the target is unchanged. */
  readonly requireProof: boolean;
  /** Maximum duration of the whole command. */
  readonly maxDurationMs?: number;
  readonly maxLocks: readonly LockLimit[];
  readonly maxWalBytes?: number;
  /** Maximum disk space needed at the peak, according to the forecast. */
  readonly maxDiskBytes?: number;
  /** Under load: sum of the times that sessions may wait behind the command. */
  readonly maxBlockedSecondsMs?: number;
  /** Under load: the latency that 95 % of the transactions may have while the command runs. */
  readonly maxLatencyMs?: number;
  /** Under load: number of transactions that may fail. */
  readonly maxFailures?: number;
}

/** How long a lock mode may be held; a limit for a relation takes precedence over a general one. */
export interface LockLimit {
  readonly relation?: string;
  readonly mode: LockMode;
  readonly maxMs: number;
}

/** A hazard that the user allows. */
export interface Allowance {
  readonly code: string;
  readonly relation?: string;
  readonly reason: string;
  /** The last day of the allowance, `2027-01-31`. */
  readonly until?: string;
}

export const DEFAULT_POLICY: Policy = { failOn: 'error', allow: [], requireProof: false, maxLocks: [] };

/** Marks the hazards that the policy allows. @param today the date, as `2026-11-21`. */
export function applyPolicy(hazards: readonly Hazard[], { allow }: Policy, today: string): Hazard[] {
  return hazards.map((hazard) => {
    const allowance = allow.find((each) => covers(each, hazard) && !isExpired(each, today));
    if (!allowance) return hazard;
    return { ...hazard, allowed: true, evidence: `${hazard.evidence} ${agreed(allowance)}`.trim() };
  });
}

/** A reason for each hazard that fails the rehearsal, with the option that would allow it. */
export function hazardReasons(hazards: readonly Hazard[], policy: Policy, today: string): string[] {
  const failing: Hazard['severity'][] = policy.failOn === 'warning' ? ['error', 'warning'] : ['error'];
  return hazards
    .filter(({ allowed, severity }) => !allowed && failing.includes(severity))
    .map((hazard) => {
      const over = policy.allow.find((each) => covers(each, hazard) && isExpired(each, today));
      const was = over
        ? `; the allowance until ${over.until} ("${over.reason}") has expired; to allow it again: `
        : '; to allow it: ';
      return `${hazard.code}${hazard.relation === null ? '' : ` on ${hazard.relation}`}: ${sentence(hazard.message)}${was}${allowFlag(hazard)}`;
    });
}

/** Whether a name refers to a relation; `orders` refers to relations of this name in any schema. */
export function refersTo(named: string, relation: string): boolean {
  return named === relation || (!named.includes('.') && relation.endsWith(`.${named}`));
}

function covers({ code, relation }: Allowance, hazard: Hazard): boolean {
  if (code !== hazard.code) return false;
  return relation === undefined || (hazard.relation !== null && refersTo(relation, hazard.relation));
}

/** Whether the allowance has expired; ISO 8601 dates compare as text. */
function isExpired({ until }: Allowance, today: string): boolean {
  return until !== undefined && until < today;
}

function agreed({ reason, until }: Allowance): string {
  return `Allowed${until === undefined ? '' : ` until ${until}`}: ${reason}.`;
}

function sentence(message: string): string {
  return message.replace(/\.\s*$/, '');
}
