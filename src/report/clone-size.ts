import type { Report } from '../model/report.ts';

/** For the headline: a way to clone that left rows out says so of the clone's size. */
export function sizeOfClone({ limits }: Pick<Report, 'limits'>): string {
  const smaller = limits.some(({ path, kind }) => path === 'clone.sizeBytes' && kind === 'estimate');
  return smaller ? 'a clone without all of the rows' : 'a full-size clone';
}
