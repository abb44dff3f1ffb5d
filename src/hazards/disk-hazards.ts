import { formatBytes } from '../format.ts';
import type { ForecastSection, Hazard } from '../model/report.ts';
import type { HazardTexts } from './hazard-definition.ts';

/** Share of the free disk space that may be needed without a warning: other sessions write there as well. */
const NEARLY_ALL = 0.8;

const DISK: HazardTexts = {
  code: 'DISK_FILLS_UP',
  title: "the target's disk fills up",
  condition:
    "At the peak more disk space is needed than is free on the target's file system (an error), or more than 80 % of it (a warning).",
  effect:
    'Statements of all sessions fail with "No space left on device"; if no WAL can be written, the whole server stops.',
  safer:
    'First free or add space; or change the rows in batches with a checkpoint and a VACUUM in between, instead of rewriting tables.',
};

/** Hazards of the forecast. */
export const DISK_HAZARDS: readonly HazardTexts[] = [DISK];

export function findDiskHazards(forecast: Pick<ForecastSection, 'disk'> | null): Hazard[] {
  const { neededBytes = null, freeBytes = null, compressRatio } = forecast?.disk ?? {};
  if (neededBytes === null || freeBytes === null || neededBytes <= freeBytes * NEARLY_ALL) return [];
  const isError = neededBytes > freeBytes;
  const compression =
    compressRatio === undefined ? '' : ` and compressed ${compressRatio}-fold, as the data is now`;
  return [
    {
      code: DISK.code,
      severity: isError ? 'error' : 'warning',
      statement: null,
      relation: null,
      message: isError
        ? "The target's disk does not have the space that is needed."
        : "The target's disk would be nearly full.",
      evidence: `up to ${formatBytes(neededBytes)} needed at the peak, including WAL${compression}; ${formatBytes(freeBytes)} free on the target's file system`,
      advice: DISK.safer,
      allowed: false,
    },
  ];
}
