import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);

/** The package pg. */
export const pg = load();

/**
 * Before Node 21, which has `navigator`, pg makes a `Response` to find out where it runs. That loads all of fetch and HTTP/2, which takes
 * 50 ms in each thread.
 */
function load(): typeof import('pg') {
  if ('navigator' in globalThis) return require('pg');
  Object.assign(globalThis, { navigator: { userAgent: `Node.js/${process.versions.node}` } });
  try {
    return require('pg');
  } finally {
    Reflect.deleteProperty(globalThis, 'navigator');
  }
}
