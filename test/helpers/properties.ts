import * as fc from 'fast-check';

/** What was tried in this process. */
export const tried: { property: string; cases: number; seed: number; failed: string; s: number }[] = [];

/**
 * Checks a property with random cases, and prints their seed. Each run tries the same ones, so that a change is judged by what it
 * changed; SAFEMIGRATE_TEST_SEED tries others (a number, or `random`), as `npm run soak` does. SAFEMIGRATE_TEST_CASES multiplies
 * their number.
 */
export async function holds<Case extends [unknown, ...unknown[]]>(
  name: string,
  cases: number,
  property: fc.IAsyncProperty<Case> | fc.IProperty<Case>,
): Promise<void> {
  const { SAFEMIGRATE_TEST_SEED: given = '1' } = process.env;
  const seed = given === 'random' ? Math.floor(Math.random() * 2 ** 31) : Number(given);
  const numRuns = cases * Number(process.env.SAFEMIGRATE_TEST_CASES ?? 1);
  process.stdout.write(`${name}: ${numRuns} cases, SAFEMIGRATE_TEST_SEED=${seed}\n`);
  const startedMs = performance.now();
  const details = await fc.check(property, { seed, numRuns });
  const s = Math.round((performance.now() - startedMs) / 1000);
  tried.push({ property: name, cases: details.numRuns, seed, failed: details.failed ? 'yes' : 'no', s });
  if (details.failed) throw new Error(fc.defaultReportMessage(details), { cause: details.errorInstance });
}
