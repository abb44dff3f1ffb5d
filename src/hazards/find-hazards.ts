import type { HazardFacts } from '../model/hazard-facts.ts';
import type { Hazard } from '../model/report.ts';
import { CATALOGUE } from './catalogue.ts';
import { HazardContext } from './hazard-context.ts';
import { TRAFFIC_HAZARDS } from './traffic-hazards.ts';

const SEVERITIES: readonly Hazard['severity'][] = ['error', 'warning', 'notice'];

/** Finds the hazards of the command for production, the most severe first. None is allowed yet: the policy does that. */
export function findHazards(facts: HazardFacts): Hazard[] {
  const context = new HazardContext(facts);
  return [...CATALOGUE, ...TRAFFIC_HAZARDS]
    .flatMap(({ code, find }) =>
      find(context).map((finding): Hazard => ({ code, ...finding, allowed: false })),
    )
    .sort(
      (a, b) =>
        SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity) ||
        (a.statement ?? Number.POSITIVE_INFINITY) - (b.statement ?? Number.POSITIVE_INFINITY) ||
        0,
    );
}
