/**
 * The module `pg`, loaded when it is first needed. It looks for the global `navigator`, which Node 20 lacks, and would find out
 * by a Response, which loads 50 ms of what nobody needs here: so for that moment there is one.
 */
export async function loadPg(): Promise<typeof import('pg')> {
  if ('navigator' in globalThis) return import('pg');
  const navigator = { userAgent: 'Node.js' };
  Object.defineProperty(globalThis, 'navigator', { value: navigator, configurable: true });
  try {
    return await import('pg');
  } finally {
    Reflect.deleteProperty(globalThis, 'navigator');
  }
}
