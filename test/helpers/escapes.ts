import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ServerVersion } from '../../src/local-server/binaries.ts';
import { VERSIONS } from './servers.ts';

/** The ways out of a rehearsal in fixtures/escapes: each is a program or SQL file with a header. */

const FOLDER = fileURLToPath(new URL('../../fixtures/escapes', import.meta.url));

export const CLONES = ['template', 'dump', 'cluster'] as const;
export type CloneKind = (typeof CLONES)[number];
export const ROLES = ['superuser', 'owner', 'plain'] as const;
export type RoleKind = (typeof ROLES)[number];

export interface Escape {
  readonly name: string;
  readonly file: string;
  /** In words. */
  readonly tries: string;
  /** How production is read from outside, in words: readProduction() does it. */
  readonly truth: string;
  readonly roles: readonly RoleKind[];
  readonly clones: readonly CloneKind[];
  readonly versions: (version: ServerVersion) => boolean;
  /** SQL that a superuser runs in the target before. */
  readonly setup: string | undefined;
  /** More arguments of safemigrate. */
  readonly args: readonly string[];
  /** Its own output says so when it has succeeded; production shows nothing of it. */
  readonly output: string | undefined;
  /** It does something also if it is run on the target itself, which shows that it is a way to do something. */
  readonly hasControl: boolean;
  /** The one attempt that every run of the tests makes; the soak makes all. */
  readonly tested: Omit<Attempt, 'escape'> | undefined;
  /** A file with the number of a process that outlives the command. */
  readonly waits: string | undefined;
  /** The service of others has a session in the target already. */
  readonly isPooled: boolean;
  /** Another program does it, because of a file that the command writes: no sandbox is between these two. */
  readonly byOthers: boolean;
  /** Sessions of production are timed meanwhile: the escape makes them wait. */
  readonly watch: boolean;
}

/** Why none of them can be tried here; null if they can. */
export const noEscapes =
  process.platform !== 'linux'
    ? 'production is read from outside through /proc, which only Linux has'
    : spawnSync('psql', ['--version']).error
      ? 'psql is not installed'
      : null;

/** Programs that others use. */
const SHARED = ['production.mjs', 'later.mjs'];

export const ESCAPES: readonly Escape[] = readdirSync(FOLDER)
  .filter((file) => /\.(sql|mjs|sh)$/.test(file) && !SHARED.includes(file))
  .sort()
  .map(readEscape);

function readEscape(file: string): Escape {
  const header = new Map<string, string>();
  for (const line of readFileSync(path.join(FOLDER, file), 'utf8').split('\n')) {
    const [, key, value] = /^(?:--|\/\/|#) (\w+): (.+)$/.exec(line) ?? [];
    if (key === undefined || value === undefined) break;
    header.set(key, value);
  }
  const needed = (key: string) => {
    const value = header.get(key);
    if (value === undefined)
      throw new Error(`fixtures/escapes/${file} has no line "${key}: …" in its header`);
    return value;
  };
  const among = <T extends string>(words: string, known: readonly T[]) =>
    words.split(' ').map((word) => {
      const found = known.find((each) => each === word);
      if (!found) throw new Error(`fixtures/escapes/${file}: ${word} is none of ${known.join(', ')}`);
      return found;
    });
  return {
    name: file.replace(/\.\w+$/, ''),
    file: path.join(FOLDER, file),
    tries: needed('tries'),
    truth: needed('truth'),
    roles: among(needed('roles'), ROLES),
    clones: among(header.get('clones') ?? CLONES.join(' '), CLONES),
    versions: versionsOf(header.get('versions')),
    setup: header.get('setup'),
    args: header.get('args')?.split('|') ?? [],
    output: header.get('output'),
    hasControl: !header.has('control'),
    tested: testedOf(header.get('tested')),
    waits: header.get('waits'),
    isPooled: header.has('pooled'),
    byOthers: header.has('others'),
    watch: header.has('watch'),
  };
}

function testedOf(text: string | undefined): Escape['tested'] {
  if (text === undefined) return undefined;
  const [clone, role, version] = text.split(' ');
  return {
    clone: CLONES.find((each) => each === clone) ?? 'template',
    role: ROLES.find((each) => each === role) ?? 'superuser',
    version: VERSIONS.find((each) => String(each) === version) ?? 18,
  };
}

function versionsOf(text = 'from 14'): Escape['versions'] {
  const [, word, number] = /^(from|until) (\d+)$/.exec(text) ?? [];
  if (word === undefined) throw new Error(`versions: ${text}`);
  return (version) => (word === 'from' ? version >= Number(number) : version <= Number(number));
}

/** One row of the table: an escape, tried by a role on a clone of a target of this version. */
export interface Attempt {
  readonly escape: Escape;
  readonly version: ServerVersion;
  readonly clone: CloneKind;
  readonly role: RoleKind;
}

/** The share of all attempts that every run of the tests makes. */
export const TESTED: readonly Attempt[] = ESCAPES.flatMap((each) =>
  each.tested === undefined ? [] : [{ ...each.tested, escape: each }],
);

/** Every combination of an escape that exists on these versions. */
export function attemptsOn(versions: readonly ServerVersion[]): Attempt[] {
  return ESCAPES.flatMap((each) =>
    versions
      .filter((version) => each.versions(version))
      .flatMap((version) =>
        each.clones.flatMap((clone) =>
          each.roles
            // Only the owner of a database may clone it by TEMPLATE.
            .filter((role) => clone !== 'template' || role !== 'plain')
            .map((role): Attempt => ({ escape: each, version, clone, role })),
        ),
      ),
  );
}

export function nameOfAttempt({ escape: { name }, version, clone, role }: Attempt): string {
  return `${name} (${clone}, ${role}, PostgreSQL ${version})`;
}
