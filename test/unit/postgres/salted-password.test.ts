import { pbkdf2Sync } from 'node:crypto';
import { expect, test } from 'vitest';
import { saltedPassword } from '../../../src/postgres/connection/salted-password.ts';

const derived = (password: string, salt: Buffer, iterations: number) =>
  pbkdf2Sync(password, salt, iterations, 32, 'sha256');

test('is what RFC 5802 says, for each password, salt and number of iterations', async () => {
  const [salt, other] = [Buffer.from('first'), Buffer.from('second')];
  for (const [password, salted, iterations] of [
    ['pässword', salt, 4096],
    ['pässword', other, 4096],
    ['pässword', salt, 4097],
    ['another', salt, 4096],
  ] as const)
    expect(await saltedPassword(password, salted, iterations)).toEqual(derived(password, salted, iterations));
});

test('is derived once', async () => {
  const salt = Buffer.from('salt');
  const first = saltedPassword('secret', salt, 100_000);
  expect(saltedPassword('secret', Buffer.from('salt'), 100_000)).toBe(first);
  expect(await first).toEqual(derived('secret', salt, 100_000));
});
