import type { Report } from '../model/report.ts';

/** For the headline: a way to clone that left rows out says so of the clone's size. */
export function sizeOfClone({ caveats }: Pick<Report, 'caveats'>): string {
  const smaller = caveats.some(({ path, kind }) => path === 'clone.sizeBytes' && kind === 'estimate');
  return smaller ? 'a clone without all of the rows' : 'a full-size clone';
}
