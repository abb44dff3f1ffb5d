import { CATALOGUE } from './catalogue.ts';
import { DISK_HAZARDS } from './disk-hazards.ts';
import { EXIT_CODE_CHECKS } from './exit-code-checks.ts';
import type { HazardTexts } from './hazard-definition.ts';

/** Whatever code a report may name: what hurts production, exit codes that are not to be trusted, and disks that are full. */
export const KNOWN_HAZARDS: readonly HazardTexts[] = [...CATALOGUE, ...EXIT_CODE_CHECKS, ...DISK_HAZARDS];
