import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { afterAll, describe, expect, test } from 'vitest';
import type { ServerVersion } from '../../src/local-server/binaries.ts';
import { newestClientPrograms } from '../../src/local-server/client-programs.ts';
import { recordFigures } from '../bench/figures.ts';
import { type Ending, Productions } from '../helpers/escape-trials.ts';
import { type Attempt, attemptsOn, ESCAPES, nameOfAttempt, noEscapes } from '../helpers/escapes.ts';
import { skipReason } from '../helpers/requirements.ts';

/** Which part of the table; and a file that takes a line of each attempt, so that the table can be made piece by piece. */
const {
  ESCAPES_ONLY,
  ESCAPES_CLONES,
  ESCAPES_ROLES,
  ESCAPES_VERSIONS = '14,15,18',
  ESCAPES_TABLE,
  ESCAPES_SANDBOX,
  ESCAPES_IN_TURN,
} = process.env;
const isWanted = (list: string | undefined, value: string) => list?.split(',').includes(value) ?? true;

const productions = new Productions();
const lines: string[] = [];

/** An older pg_dump refuses the server. */
const dumpsUpTo = (await newestClientPrograms(['pg_dump']))?.major ?? 0;
const wanted = attemptsOn(ESCAPES_VERSIONS.split(',').map(Number) as ServerVersion[]).filter(
  ({ escape: { name }, clone, role, version }) =>
    isWanted(ESCAPES_ONLY, name) &&
    isWanted(ESCAPES_CLONES, clone) &&
    isWanted(ESCAPES_ROLES, role) &&
    (clone !== 'dump' || version <= dumpsUpTo),
);
const attempts = ESCAPES_IN_TURN === undefined ? wanted : onVersionsInTurn(wanted);

/** Each way by each clone and role once, on one version after the other: a third of the table, which takes hours. */
function onVersionsInTurn(all: readonly Attempt[]): Attempt[] {
  const combinations = new Map<string, Attempt[]>();
  for (const each of all) {
    const key = `${each.escape.name} ${each.clone} ${each.role}`;
    combinations.set(key, [...(combinations.get(key) ?? []), each]);
  }
  return [...combinations.values()].flatMap((same, turn) => same[turn % same.length] ?? []);
}

const ENDINGS: readonly Ending[] = ['stopped', 'refused', 'reported', 'not proved', 'out of reach', 'silent'];

/** How many attempts ended in which way; of an attempt that was made again the last one counts. */
function countEndings(): Record<string, string | number>[] {
  const all =
    ESCAPES_TABLE && existsSync(ESCAPES_TABLE) ? readFileSync(ESCAPES_TABLE, 'utf8').split('\n') : lines;
  const endings = new Map<string, string>();
  for (const line of all) {
    const [, ending, name] = /^(.{12}) \S+ (.+? \(\w+, \w+, PostgreSQL \d+\)):/.exec(line) ?? [];
    if (ending !== undefined && name !== undefined) endings.set(name, ending.trim());
  }
  const rows = new Map<string, Record<string, string | number>>();
  for (const [name, ending] of endings) {
    const [, clone = '', role = '', version = ''] = /\((\w+), (\w+), PostgreSQL (\d+)\)$/.exec(name) ?? [];
    const none = Object.fromEntries(ENDINGS.map((each) => [each, 0]));
    const row = rows.get(`${version} ${clone} ${role}`) ?? {
      PostgreSQL: version,
      clone,
      role,
      tried: 0,
      ...none,
    };
    rows.set(`${version} ${clone} ${role}`, {
      ...row,
      tried: Number(row.tried) + 1,
      [ending]: Number(row[ending]) + 1,
    });
  }
  return [...rows].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, row]) => row);
}

afterAll(async () => {
  await productions.stop();
  if (ESCAPES_TABLE === undefined && ESCAPES_ONLY !== undefined) return;
  const title = 'ways out of a rehearsal that were tried, and what came of them';
  const how = ESCAPES_SANDBOX === 'default' ? ', commands in the sandbox' : '';
  recordFigures(title + how, countEndings(), [
    'reported: exit code 5; refused: no clone was made, and the command not run; out of reach: a program outside did it because of a file that the command wrote (threat-model.md)',
  ]);
});

describe.skipIf(skipReason(noEscapes))('no way out of the rehearsal is silent', () => {
  test.each(attempts.map((tried) => [nameOfAttempt(tried), tried] as const))('%s', async (name, tried) => {
    const { ending, exitCode, changes, output } = await productions.attempt(
      tried,
      ESCAPES_SANDBOX === 'default' ? 'by default' : 'watched',
    );
    const line = `${ending.padEnd(12)} ${exitCode} ${name}: ${changes.join('; ').slice(0, 200)}`;
    lines.push(line);
    if (ESCAPES_TABLE) appendFileSync(ESCAPES_TABLE, `${line}\n`);
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
