import * as fc from 'fast-check';

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
  await fc.assert(property, { seed, numRuns });
}
