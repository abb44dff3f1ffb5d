import { createHash, createHmac } from 'node:crypto';
import { saltedPassword } from './salted-password.ts';

type Pg = typeof import('pg');

let loading: Promise<Pg> | undefined;

/** The module `pg`, loaded when it is first needed. */
export function loadPg(): Promise<Pg> {
  loading ??= load();
  return loading;
}

async function load(): Promise<Pg> {
  const pg = await importPg();
  await logInFaster();
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
 * pg derives the key anew for each login, and hashes the few bytes of one with the Web Crypto API, which takes 3 ms and threads
 * of its own for it.
 */
async function logInFaster(): Promise<void> {
  const { default: utils } = await import('pg/lib/crypto/utils.js');
  utils.deriveKey = saltedPassword;
  utils.hmacSha256 = async (key, text) => createHmac('sha256', key).update(text).digest();
  utils.sha256 = async (text) => createHash('sha256').update(text).digest();
}
