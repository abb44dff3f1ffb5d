import type { Hazard } from '../model/report.ts';
import { acceptFlag } from './override-flags.ts';
import type { Allowance, Policy } from './policy-settings.ts';

/** Marks the hazards that the policy allows. @param today the date, as `2026-11-21`. */
export function applyPolicy(hazards: readonly Hazard[], { accept }: Policy, today: string): Hazard[] {
  return hazards.map((hazard) => {
    const allowance = accept.find((each) => covers(each, hazard) && !isExpired(each, today));
    if (!allowance) return hazard;
    return { ...hazard, allowed: true, evidence: `${hazard.evidence} ${agreed(allowance)}`.trim() };
  });
}

/** A reason for each hazard that fails the rehearsal, with the option that would accept it. */
export function hazardReasons(hazards: readonly Hazard[], policy: Policy, today: string): string[] {
  const failing: Hazard['severity'][] = policy.failOn === 'warning' ? ['error', 'warning'] : ['error'];
  return hazards
    .filter(({ allowed, severity }) => !allowed && failing.includes(severity))
    .map((hazard) => {
      const over = policy.accept.find((each) => covers(each, hazard) && isExpired(each, today));
      const was = over
        ? `; the allowance until ${over.until} ("${over.reason}") has expired; to accept it again: `
        : '; to accept it: ';
      return `${hazard.code}${hazard.relation === null ? '' : ` on ${hazard.relation}`}: ${sentence(hazard.message)}${was}${acceptFlag(hazard)}`;
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
