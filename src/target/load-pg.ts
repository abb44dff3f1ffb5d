type Pg = typeof import('pg');

let loading: Promise<Pg> | undefined;

/** The module `pg`, loaded when it is first needed. */
export function loadPg(): Promise<Pg> {
  loading ??= load();
  return loading;
}

async function load(): Promise<Pg> {
  const pg = await importPg();
  await deriveKeysOnce();
  return pg;
}

/**
 * pg looks for the global `navigator`, which Node 20 lacks, and would find out by a Response, which loads 50 ms of what nobody
 * needs here: so for that moment there is one.
 */
async function importPg(): Promise<Pg> {
  if ('navigator' in globalThis) return import('pg');
  const navigator = { userAgent: 'Node.js' };
  Object.defineProperty(globalThis, 'navigator', { value: navigator, configurable: true });
  try {
    return await import('pg');
  } finally {
    Reflect.deleteProperty(globalThis, 'navigator');
  }
}

/**
 * The key of a SCRAM login takes as long to derive as the server's `scram_iterations` want it to, and pg derives it for each
 * connection anew; a run opens a dozen. RFC 5802 lets a client keep it: it is the same for as long as password and salt are.
 */
async function deriveKeysOnce(): Promise<void> {
  const { default: utils } = await import('pg/lib/crypto/utils.js');
  const derive = utils.deriveKey;
  const known = new Map<string, Promise<ArrayBuffer>>();
  utils.deriveKey = (password, salt, iterations) => {
    const of = JSON.stringify([password, Buffer.from(salt).toString('base64'), iterations]);
    const key = known.get(of) ?? derive(password, salt, iterations);
    known.set(of, key);
    return key;
  };
}
