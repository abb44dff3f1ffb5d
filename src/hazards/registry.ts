import { CATALOGUE } from './catalogue.ts';
import { SHORTAGES } from './disk-hazards.ts';
import { HONESTY } from './exit-code-checks.ts';
import type { Words } from './hazard-definition.ts';

/** Whatever code a report may name: what hurts production, exit codes that are not to be trusted, and disks that are full. */
export const KNOWN_HAZARDS: readonly Words[] = [...CATALOGUE, ...HONESTY, ...SHORTAGES];
