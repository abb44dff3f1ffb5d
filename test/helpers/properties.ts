import * as fc from 'fast-check';

/**
 * Checks a property with random cases, and prints their seed: SAFEMIGRATE_TEST_SEED tries the same cases once more.
 * SAFEMIGRATE_TEST_CASES multiplies their number.
 */
export async function holds<Case extends [unknown, ...unknown[]]>(
  name: string,
  cases: number,
  property: fc.IAsyncProperty<Case> | fc.IProperty<Case>,
): Promise<void> {
  const seed = Number(process.env.SAFEMIGRATE_TEST_SEED ?? Math.floor(Math.random() * 2 ** 31));
  const numRuns = cases * Number(process.env.SAFEMIGRATE_TEST_CASES ?? 1);
  process.stdout.write(`${name}: ${numRuns} cases, SAFEMIGRATE_TEST_SEED=${seed}\n`);
  await fc.assert(property, { seed, numRuns });
}
