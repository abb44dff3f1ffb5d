import { appendFileSync } from 'node:fs';
import type { Reporter, TestModule } from 'vitest/node';

/** Adds a line for each file of tests to the file that SAFEMIGRATE_TEST_TIMINGS names: how long it took, with its hooks and imports. */
export default class Timings implements Reporter {
  onTestModuleEnd(module: TestModule): void {
    const { SAFEMIGRATE_TEST_TIMINGS: file } = process.env;
    if (file === undefined) return;
    const { duration, collectDuration, setupDuration } = module.diagnostic();
    const seconds = (duration + collectDuration + setupDuration) / 1000;
    appendFileSync(file, `${JSON.stringify({ file: module.relativeModuleId, seconds })}\n`);
  }
}
