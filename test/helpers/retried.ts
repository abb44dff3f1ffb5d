import type { Reporter, TestCase } from 'vitest/node';

/** Names at the end of a run each test that passed only when it was run again: one to be looked into, or to be made sturdier. */
export default class Retried implements Reporter {
  readonly #names: string[] = [];

  onTestCaseResult(test: TestCase): void {
    if (!test.diagnostic()?.flaky) return;
    const [error] = test.result().errors ?? [];
    this.#names.push(`${test.module.relativeModuleId} > ${test.fullName}\n    ${error?.message ?? ''}`);
  }

  onTestRunEnd(): void {
    if (this.#names.length > 0) console.log(`\npassed only when run again:\n  ${this.#names.join('\n  ')}`);
  }
}
