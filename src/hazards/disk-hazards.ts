import { formatBytes } from '../format.ts';
import type { ForecastSection, Hazard } from '../model/report.ts';
import type { HazardTexts } from './hazard-definition.ts';

/** What of the free disk may be needed before it is worth a warning: others write there meanwhile. */
const NEARLY_ALL = 0.8;

const DISK: HazardTexts = {
  code: 'DISK_FILLS_UP',
  title: "the target's disk fills up",
  condition:
    'At the peak more disk space is needed than is free where the target lies (an error), or more than 80 % of it (a warning).',
  effect:
    'Statements of everybody fail with "No space left on device"; where no WAL can be written the whole server stops.',
  safer:
    'Free or add space first; or change the rows in batches with a checkpoint and a VACUUM in between, instead of writing tables anew.',
};

/** What the forecast says that there is not enough of. */
export const DISK_HAZARDS: readonly HazardTexts[] = [DISK];

export function findDiskHazards(forecast: Pick<ForecastSection, 'disk'> | null): Hazard[] {
  const { neededBytes = null, freeBytes = null } = forecast?.disk ?? {};
  if (neededBytes === null || freeBytes === null || neededBytes <= freeBytes * NEARLY_ALL) return [];
  const isError = neededBytes > freeBytes;
  return [
    {
      code: DISK.code,
      severity: isError ? 'error' : 'warning',
      statement: null,
      relation: null,
      message: isError
        ? "The target's disk has not the space that is needed."
        : "The target's disk is nearly filled up.",
      evidence: `up to ${formatBytes(neededBytes)} needed at the peak, its WAL included; ${formatBytes(freeBytes)} free where the target lies`,
      advice: DISK.safer,
      allowed: false,
    },
  ];
}
