import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import packageFacts from '../../package.json' with { type: 'json' };
import { PROGRAM } from '../helpers/cli.ts';

const [FILE] = PROGRAM;

/** Versions of the symbols that the file takes from the system's libraries: GLIBC_2.28, GLIBCXX_3.4.25 and so on. */
function wantedSymbols(): readonly (readonly [library: string, version: number[]])[] {
  const { stdout } = spawnSync('readelf', ['--version-info', '--wide', FILE], { encoding: 'utf8' });
  const names = stdout.match(/\b(?:GLIBC|GLIBCXX|CXXABI|GCC)_[\d.]+/g) ?? [];
  return [...new Set(names)].map((name) => {
    const [library = '', version = ''] = name.split('_');
    return [library, version.split('.').map(Number)] as const;
  });
}

function isNewer(one: readonly number[], other: readonly number[]): boolean {
  const at = one.findIndex((part, index) => part !== (other[index] ?? 0));
  return at >= 0 && (one[at] ?? 0) > (other[at] ?? 0);
}

/** What Red Hat Enterprise Linux 8 and its like have, the oldest systems that are supported: glibc 2.28, libstdc++ and libgcc of GCC 8. */
const OLDEST: Readonly<Record<string, readonly number[]>> = {
  GLIBC: [2, 28],
  GLIBCXX: [3, 4, 25],
  CXXABI: [1, 3, 11],
  GCC: [8, 0, 0],
};

test('it needs no newer system libraries than glibc 2.28 and those of GCC 8', () => {
  const wanted = wantedSymbols();
  expect(wanted.map(([library]) => library)).toContain('GLIBC');
  expect(wanted.filter(([library, version]) => isNewer(version, OLDEST[library] ?? []))).toEqual([]);
});

test('it has at most 130 MB, compressed 45 MB', () => {
  expect(statSync(FILE).size).toBeLessThan(130e6);
  expect(statSync(`${FILE}.gz`).size).toBeLessThan(45e6);
});

/** The time of a processor, in seconds, that ten runs of a program take. */
function processorTime(...words: string[]): number {
  const line = 'for run in 1 2 3 4 5 6 7 8 9 10; do "$@" > /dev/null; done; times';
  const { stdout } = spawnSync('sh', ['-c', line, 'sh', ...words], { encoding: 'utf8' });
  const ofChildren = stdout.trim().split('\n').at(-1) ?? '';
  return [...ofChildren.matchAll(/(\d+)m([\d.]+)s/g)].reduce(
    (sum, [, minutes, seconds]) => sum + 60 * Number(minutes) + Number(seconds),
    0,
  );
}

test('--version takes at most 1.3 times what the Node that it is made of takes to start', () => {
  const cache = fileURLToPath(new URL('../../node_modules/.cache/executable', import.meta.url));
  const build = new RegExp(`^node-${process.platform}-${process.arch}-[\\d.]+$`);
  const [newest = ''] = readdirSync(cache)
    .filter((name) => build.test(name))
    .toSorted()
    .toReversed();
  const ratios = [1, 2, 3, 4, 5].map(
    () => processorTime(FILE, '--version') / processorTime(path.join(cache, newest, 'node'), '-e', '0'),
  );
  expect(Math.min(...ratios)).toBeGreaterThan(0.5);
  expect(Math.min(...ratios), ratios.join(' ')).toBeLessThan(1.3);
}, 120_000);

interface Part {
  readonly name: string;
  readonly version: string;
  readonly purl: string;
  readonly components?: readonly Part[];
}

test('its list of parts names Node, what is linked into it, and each package whose licence is in the file', () => {
  const { metadata, components } = JSON.parse(readFileSync(`${FILE}.cdx.json`, 'utf8')) as {
    metadata: { component: { version: string; hashes: unknown } };
    components: readonly Part[];
  };
  const content = createHash('sha256').update(readFileSync(FILE)).digest('hex');
  expect(metadata.component).toMatchObject({
    version: packageFacts.version,
    hashes: [{ alg: 'SHA-256', content }],
  });
  const licences = readFileSync(path.join(path.dirname(FILE), 'THIRD-PARTY-LICENSES'), 'utf8');
  const licensed = [...licences.matchAll(/^(\S+) (\d\S*) \(.+\)$/gm)].map(
    ([, name, version]) => `${name}@${version}`,
  );
  const packages = components.filter(({ name }) => name !== 'node');
  expect(packages.map(({ name, version }) => `${name}@${version}`).toSorted()).toEqual(licensed.toSorted());
  expect(packages.map(({ name }) => name)).toEqual(
    expect.arrayContaining(Object.keys(packageFacts.dependencies)),
  );
  const node = components.find(({ name }) => name === 'node');
  expect(licences).toContain(`Node.js ${node?.version}\n`);
  expect(node?.components?.map(({ name }) => name)).toEqual(
    expect.arrayContaining(['v8', 'openssl', 'uv', 'zlib', 'icu', 'sqlite']),
  );
});
