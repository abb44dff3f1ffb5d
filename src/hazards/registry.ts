import { CATALOGUE } from './catalogue.ts';
import { DISK_HAZARDS } from './disk-hazards.ts';
import { EXIT_CODE_CHECKS } from './exit-code-checks.ts';
import type { HazardTexts } from './hazard-definition.ts';
import { LOAD_HAZARDS } from './load-hazards.ts';

/** All hazards that a report may contain: those of the catalogue, of the exit code, and of the disk. */
export const KNOWN_HAZARDS: readonly HazardTexts[] = [
  ...CATALOGUE,
  ...EXIT_CODE_CHECKS,
  ...DISK_HAZARDS,
  ...LOAD_HAZARDS,
];
