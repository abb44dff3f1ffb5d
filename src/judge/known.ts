import { CATALOGUE } from './hazards/catalogue.ts';
import type { Words } from './hazards/record.ts';
import { HONESTY } from './honesty.ts';
import { SHORTAGES } from './shortages.ts';

/** Whatever code a report may name: what hurts production, exit codes that are not to be trusted, and disks that are full. */
export const KNOWN_HAZARDS: readonly Words[] = [...CATALOGUE, ...HONESTY, ...SHORTAGES];
