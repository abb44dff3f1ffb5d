import { CATALOGUE } from './hazards/catalogue.ts';
import type { Words } from './hazards/record.ts';
import { HONESTY } from './honesty.ts';

/** Whatever code a report may name: what hurts production, and exit codes that are not to be trusted. */
export const KNOWN_HAZARDS: readonly Words[] = [...CATALOGUE, ...HONESTY];
