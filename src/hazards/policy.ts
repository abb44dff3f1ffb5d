import type { Hazard } from '../model/report.ts';
import type { LockMode } from '../postgres/lock-modes.ts';
import { allowFlag } from './override-flags.ts';

/** What a rehearsal has to keep to. Without any of it, hazards of severity `error` fail. */
export interface Policy {
  /** Hazards of this severity, and graver ones, fail. */
  readonly failOn: 'error' | 'warning';
  readonly allow: readonly Allowance[];
  /** Of the whole command. */
  readonly maxDurationMs?: number;
  readonly maxLocks: readonly LockLimit[];
  readonly maxWalBytes?: number;
  /** Disk space needed at the peak, as forecast. */
  readonly maxDiskBytes?: number;
}

/** For how long a lock mode may be held; one of a relation goes before the general one. */
export interface LockLimit {
  readonly relation?: string;
  readonly mode: LockMode;
  readonly maxMs: number;
}

/** A hazard that was agreed to. */
export interface Allowance {
  readonly code: string;
  readonly relation?: string;
  readonly reason: string;
  /** The last day on which it holds, `2027-01-31`. */
  readonly until?: string;
}

export const DEFAULT_POLICY: Policy = { failOn: 'error', allow: [], maxLocks: [] };

/** @param today the date, as `2026-11-21`. */
export function applyPolicy(hazards: readonly Hazard[], { allow }: Policy, today: string): Hazard[] {
  return hazards.map((hazard) => {
    const allowance = allow.find((each) => covers(each, hazard) && !isOver(each, today));
    if (!allowance) return hazard;
    return { ...hazard, allowed: true, evidence: `${hazard.evidence} ${agreed(allowance)}`.trim() };
  });
}

/** Why the hazards that are not allowed fail the rehearsal, each with what would allow it. */
export function hazardReasons(hazards: readonly Hazard[], policy: Policy, today: string): string[] {
  const failing: Hazard['severity'][] = policy.failOn === 'warning' ? ['error', 'warning'] : ['error'];
  return hazards
    .filter(({ allowed, severity }) => !allowed && failing.includes(severity))
    .map((hazard) => {
      const over = policy.allow.find((each) => covers(each, hazard) && isOver(each, today));
      const was = over
        ? `; it was allowed until ${over.until} ("${over.reason}"), which is over: to allow it again, `
        : '; to allow it: ';
      return `${hazard.code}${hazard.relation === null ? '' : ` on ${hazard.relation}`}: ${sentence(hazard.message)}${was}${allowFlag(hazard)}`;
    });
}

/** `orders` means a relation of this name in any schema. */
export function isMeant(named: string, relation: string): boolean {
  return named === relation || (!named.includes('.') && relation.endsWith(`.${named}`));
}

function covers({ code, relation }: Allowance, hazard: Hazard): boolean {
  if (code !== hazard.code) return false;
  return relation === undefined || (hazard.relation !== null && isMeant(relation, hazard.relation));
}

/** Dates of ISO 8601 compare as text. */
function isOver({ until }: Allowance, today: string): boolean {
  return until !== undefined && until < today;
}

function agreed({ reason, until }: Allowance): string {
  return `Allowed${until === undefined ? '' : ` until ${until}`}: ${reason}.`;
}

function sentence(message: string): string {
  return message.replace(/\.\s*$/, '');
}
