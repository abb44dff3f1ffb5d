/** Set by CI, where everything is installed: what would be skipped for a missing tool then fails. */
export const requireAll = process.env.SAFEMIGRATE_TEST_REQUIRE_ALL === '1';

/**
 * For `describe.skipIf(skipReason(...))`: says loudly what is not tested here.
 * @param reason why something cannot be tested on this machine; null when it can.
 * @throws where everything is required.
 */
export function skipReason(reason: string | null): string | false {
  if (reason === null) return false;
  if (requireAll) throw new Error(`SAFEMIGRATE_TEST_REQUIRE_ALL is set, but ${reason}`);
  console.warn(`SKIPPED: ${reason}`);
  return reason;
}
