import type { Hazard, Objection } from '../model/report.ts';
import type { Allowance, Policy } from './policy-settings.ts';

/** Marks the hazards that the policy allows. @param today the date, as `2026-11-21`. */
export function applyPolicy(hazards: readonly Hazard[], { accept }: Policy, today: string): Hazard[] {
  return hazards.map((hazard) => {
    const allowance = accept.find((each) => covers(each, hazard) && !isExpired(each, today));
    if (!allowance) return hazard;
    return { ...hazard, allowed: true, evidence: `${hazard.evidence} ${agreed(allowance)}`.trim() };
  });
}

/** An objection for each hazard that fails the rehearsal; its sentence has the option that would accept it. */
export function hazardObjections(
  hazards: readonly Hazard[],
  policy: Policy,
  today: string,
): (Objection & { readonly sentence: string })[] {
  const failing: Hazard['severity'][] = policy.failOn === 'warning' ? ['error', 'warning'] : ['error'];
  return hazards.flatMap((hazard, at) => {
    if (hazard.allowed || !failing.includes(hazard.severity)) return [];
    const { code, message, statement } = hazard;
    const over = policy.accept.find((each) => covers(each, hazard) && isExpired(each, today));
    const was = over
      ? `; the allowance until ${over.until} ("${over.reason}") has expired; to accept it again: `
      : '; to accept it: ';
    const reason = `${headOf(hazard)}${sentence(message)}${was}${acceptFlag(hazard)}`;
    return [{ code, message, hazard: at, statement, sentence: reason }];
  });
}

function headOf({ code, relation }: Hazard): string {
  return `${code}${relation === null ? '' : ` on ${relation}`}: `;
}

/** Tells if a name refers to a relation; `orders` refers to relations of this name in any schema. */
export function refersTo(named: string, relation: string): boolean {
  return named === relation || (!named.includes('.') && relation.endsWith(`.${named}`));
}

function covers({ code, relation }: Allowance, hazard: Hazard): boolean {
  if (code !== hazard.code) return false;
  return relation === undefined || (hazard.relation !== null && refersTo(relation, hazard.relation));
}

/** Tells if the allowance has expired; ISO 8601 dates compare as text. */
function isExpired({ until }: Allowance, today: string): boolean {
  return until !== undefined && until < today;
}

function agreed({ reason, until }: Allowance): string {
  return `Allowed${until === undefined ? '' : ` until ${until}`}: ${reason}.`;
}

function sentence(message: string): string {
  return message.replace(/\.\s*$/, '');
}

/** Options, as a person would type them, that allow what was refused: every refusal names its way out. */

export function acceptFlag({ code, relation }: Pick<Hazard, 'code' | 'relation'>): string {
  const what = relation === null ? code : `${code}:${relation}`;
  return `--accept ${quoted(`${what}="…"`)}`;
}

export function lockFlag(relation: string, mode: string, heldMs: number): string {
  return `--limit ${quoted(`lock=${relation}:${mode}=${durationAtLeast(heldMs)}`)}`;
}

export function durationFlag(durationMs: number): string {
  return `--limit duration=${durationAtLeast(durationMs)}`;
}

export function sizeFlag(name: 'wal' | 'disk', bytes: number): string {
  return `--limit ${name}=${sizeAtLeast(bytes)}`;
}

/** Quotes a value for a POSIX shell. */
function quoted(value: string): string {
  return `'${value.replaceAll("'", "'\\''")}'`;
}

const SECOND = 1000;
const MINUTE = 60 * SECOND;

/** A duration as options have it, rounded up to two significant digits. */
function durationAtLeast(durationMs: number): string {
  if (durationMs <= SECOND) return `${roundedUp(durationMs)}ms`;
  if (durationMs <= 2 * MINUTE) return `${roundedUp(durationMs / SECOND)}s`;
  return `${roundedUp(durationMs / MINUTE)}m`;
}

const SIZES = ['kB', 'MB', 'GB', 'TB'];

function sizeAtLeast(bytes: number): string {
  let value = bytes / 1024;
  let unit = 0;
  while (value > 1024 && unit < SIZES.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${roundedUp(value)}${SIZES[unit]}`;
}

function roundedUp(value: number): number {
  const step = value > 100 ? 10 : 1;
  return Math.max(1, Math.ceil(value / step) * step);
}
