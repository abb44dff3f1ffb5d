import { appendFileSync } from 'node:fs';
import { afterAll, describe, expect, test } from 'vitest';
import type { ServerVersion } from '../../src/local-server/binaries.ts';
import { Productions } from '../helpers/escape-trials.ts';
import { attemptsOn, ESCAPES, nameOfAttempt, noEscapes } from '../helpers/escapes.ts';
import { skipReason } from '../helpers/requirements.ts';

/** Which part of the table, and a file that takes a line of each attempt. */
const {
  ESCAPES_ONLY,
  ESCAPES_CLONES,
  ESCAPES_ROLES,
  ESCAPES_VERSIONS = '14,15,18',
  ESCAPES_TABLE,
} = process.env;
const isWanted = (list: string | undefined, value: string) => list?.split(',').includes(value) ?? true;

const productions = new Productions();
afterAll(() => productions.stop());

const attempts = attemptsOn(ESCAPES_VERSIONS.split(',').map(Number) as ServerVersion[]).filter(
  ({ escape: { name }, clone, role }) =>
    isWanted(ESCAPES_ONLY, name) && isWanted(ESCAPES_CLONES, clone) && isWanted(ESCAPES_ROLES, role),
);

describe.skipIf(skipReason(noEscapes))('no way out of the rehearsal is silent', () => {
  test.each(attempts.map((tried) => [nameOfAttempt(tried), tried] as const))('%s', async (name, tried) => {
    const { ending, exitCode, changes, output } = await productions.attempt(tried);
    if (ESCAPES_TABLE)
      appendFileSync(
        ESCAPES_TABLE,
        `${ending.padEnd(10)} ${exitCode} ${name}: ${changes.join('; ').slice(0, 200)}\n`,
      );
    expect(ending, `${changes.join('; ')}\n${output}`).not.toBe('silent');
  });
});

describe.skipIf(skipReason(noEscapes))('each way out does something to a target that it is run on', () => {
  const controls = ESCAPES.filter(({ name, hasControl }) => hasControl && isWanted(ESCAPES_ONLY, name));
  test.each(controls.map((tried) => [tried.name, tried] as const))('%s', async (_, tried) => {
    const version = tried.versions(18) ? 18 : 15;
    const { changes, output } = await productions.attempt(
      { escape: tried, version, clone: 'template', role: tried.roles[0] ?? 'superuser' },
      'direct',
    );
    expect(changes, output).not.toEqual([]);
  });
});
