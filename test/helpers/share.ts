import path from 'node:path';
import { afterEach, expect } from 'vitest';

/**
 * Which cases of the long lists this run takes: `3/4` is the third of four shares, `all` takes every case. CI takes the share that
 * follows from its commit (`.ci/run`), soak takes every case, and any other run the first share.
 */
const { SAFEMIGRATE_TEST_SHARE: SHARE = '1/4' } = process.env;

/** Set by `npm run soak`: every case of the long lists, and the real command lines of all services. */
export const EVERYTHING = SHARE === 'all';

const root = path.join(import.meta.dirname, '..', '..');

/**
 * Takes this run's share of a list of equal cases, and prints its size. The error of each test that fails in the file names the share.
 * @param familyOf the kind of a case: each share has at least one case of every kind.
 */
export function inThisShare<T>(list: readonly T[], familyOf: (item: T) => unknown = () => ''): T[] {
  if (EVERYTHING) return [...list];
  const cases = casesOf(SHARE, list, familyOf);
  const file = path.relative(root, expect.getState().testPath ?? '');
  const share = `SAFEMIGRATE_TEST_SHARE=${SHARE}`;
  process.stdout.write(`${file}: ${cases.length} of ${list.length} cases, ${share}\n`);
  afterEach(({ task }) => {
    for (const error of task.result?.errors ?? [])
      if (!error.message.includes(share)) error.message += `\n(with ${share})`;
  });
  return cases;
}

/** The cases of one share, in the order of the list. All shares together have every case. */
export function casesOf<T>(share: string, list: readonly T[], familyOf: (item: T) => unknown): T[] {
  const [, number = 0, count = 0] = (/^(\d+)\/(\d+)$/.exec(share) ?? []).map(Number);
  if (number < 1 || number > count) throw new Error(`SAFEMIGRATE_TEST_SHARE=${share}: write 1/4, or all`);
  const families = new Map<unknown, T[]>();
  for (const item of list) families.set(familyOf(item), [...(families.get(familyOf(item)) ?? []), item]);
  const taken = [...families.values()].flatMap((family, offset) => {
    // Families begin with different shares, so that small ones do not all make the first share larger.
    const turn = (number - 1 + offset) % count;
    const cases = family.filter((_, at) => at % count === turn);
    return cases.length > 0 ? cases : family.filter((_, at) => at === turn % family.length);
  });
  return list.filter((item) => taken.includes(item));
}
