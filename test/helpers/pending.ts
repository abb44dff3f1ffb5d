/**
 * The same promise, for a test that awaits it after other things. Should the test fail before, what then rejects (its
 * client is closed) is not an error besides, which would end the whole run although a second try passed.
 */
export function pending<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {});
  return promise;
}
