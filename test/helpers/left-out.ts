import type { Reporter } from 'vitest/node';

/** The last line of `npm test`: what it does not try, and how to try that. */
export default class LeftOut implements Reporter {
  onTestRunEnd(): void {
    console.log(
      'Left out: PostgreSQL 14 to 17 and 19, faults, attempts to escape, services and tools of others. Everything: npm run test:all',
    );
  }
}
