import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Files that take more than a minute and are short texts, by which vitest would start them last. */
const LONG = [
  'isolation/configurations',
  'isolation/escapes',
  'tools/safer-form',
  'docs/docs-commands',
  'services/neon',
  'faults/upgrade',
  'tools/upgrade-layouts',
  'tools/drivers',
  'faults/swap',
  'faults/unusable-folders',
  'postgres/swap/online-plan',
  'swaps/swap',
  'swaps/online-swap',
  'swaps/way-back',
  'e2e/guards',
  'tools/projects',
  'e2e/statements',
  'e2e/checks',
].map((name) => `/${name}.test.ts`);

/** Starts the longest files first, so that no processor waits for the last one. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isLong = ({ moduleId }: TestSpecification) => LONG.some((name) => moduleId.endsWith(name));
    const sorted = await super.sort(files);
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
  }
}
