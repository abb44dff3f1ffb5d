import type { HazardRecord } from './record.ts';

/** Every hazard there is, in the order of the reader's questions: what blocks, what is rewritten, what is lost, what breaks. */
export const CATALOGUE: readonly HazardRecord[] = [];
