import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Files that take more than a minute and are short texts, by which vitest would start them last. */
const LONG = [
  'isolation/configurations',
  'isolation/escapes',
  'tools/safer-form',
  'docs/docs-commands',
  'docs/ci-recipe',
  'services/neon',
  'faults/upgrade',
  'tools/upgrade-layouts',
  'tools/upgrade-obstacles',
  'tools/drivers',
  'faults/swap',
  'faults/unusable-folders',
  'safer-forms/faults',
  'postgres/swap/online-plan',
  'postgres/hazards/hazards',
  'swaps/swap',
  'swaps/online-swap',
  'swaps/way-back',
  'e2e/guards',
  'tools/projects',
  'e2e/statements',
  'e2e/checks',
  'e2e/policy',
  // 16 of the 30 seconds of `unit`.
  'unit/report/every-path-is-shown',
].map((name) => `/${name}.test.ts`);

/**
 * Starts the longest files first, so that no processor waits for the last one. Those of `unit` come before all others: they need a
 * processor all the time, and those that wait for servers share the end of the run better.
 */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isUnit = ({ project }: TestSpecification) => project.name === 'unit';
    const isLong = ({ moduleId }: TestSpecification) => LONG.some((name) => moduleId.endsWith(name));
    const rank = (file: TestSpecification) => (isUnit(file) ? 0 : 2) + (isLong(file) ? 0 : 1);
    return (await super.sort(files)).toSorted((one, other) => rank(one) - rank(other));
  }
}
