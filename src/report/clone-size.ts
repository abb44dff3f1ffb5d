import type { Report } from '../model/report.ts';

/** Describes the clone for the headline: a clone without all rows has an estimated size. */
export function sizeOfClone({ caveats }: Pick<Report, 'caveats'>): string {
  const smaller = caveats.some(({ path, kind }) => path === 'clone.sizeBytes' && kind === 'estimate');
  return smaller ? 'a clone without all of the rows' : 'a full-size clone';
}
