import { CATALOGUE } from './catalogue.ts';
import { DISK_HAZARDS } from './disk-hazards.ts';
import { EXIT_CODE_CHECKS } from './exit-code-checks.ts';
import type { HazardTexts } from './hazard-definition.ts';
import { LOAD_HAZARDS } from './load-hazards.ts';
import { TRAFFIC_HAZARDS } from './traffic-hazards.ts';

/** All hazards that a report may contain: of the catalogue, the target's traffic, the exit code, the disk, and the load. */
export const KNOWN_HAZARDS: readonly HazardTexts[] = [
  ...CATALOGUE,
  ...TRAFFIC_HAZARDS,
  ...EXIT_CODE_CHECKS,
  ...DISK_HAZARDS,
  ...LOAD_HAZARDS,
];
