import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';

/**
 * The rooms of src in the order in which they may build upon each other: a room imports from those before it.
 * `upkeep` stands early because everything that is made carries its marks.
 */
const ROOMS = [
  'target',
  'server',
  'upkeep',
  'clone',
  'command',
  'wire',
  'schema',
  'observe',
  'checks',
  'judge',
  'report',
  'apply',
  'swap',
  'run',
  'run.ts',
  'index.ts',
  'cli',
];

/** Rooms that get values and return values. */
const PURE = ['judge', 'report'];
const IMPURE_MODULES =
  /^(pg|execa|libpg-query|@supabase\/.*|node:(child_process|cluster|dgram|dns|fs|http2?|https|net|tls|os|process|perf_hooks|timers|worker_threads)(\/.*)?)$/;
const IMPURE_WORDS =
  /\bDate\.now\b|\bnew Date\(\)|\bperformance\.|\bprocess\.|\bsetTimeout\b|\bMath\.random\b/;

const src = fileURLToPath(new URL('../../src/', import.meta.url));
const files = readdirSync(src, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .map((file) => file.replaceAll(path.sep, '/'));

/**
 * What every room may import: the files beside the rooms, the words of the report, what the judge is to be told, and
 * PostgreSQL's table of lock modes.
 */
const SHARED = new Set(files.filter((file) => !file.includes('/') && !ROOMS.includes(file)));
for (const file of ['model/report.ts', 'postgres/lock-modes.ts', 'model/hazard-facts.ts']) SHARED.add(file);

const imports = new Map(files.map((file) => [file, importsOf(file)]));

/** Paths relative to src for files of ours, names for modules. */
function importsOf(file: string): string[] {
  const text = codeOf(file);
  const specifiers = [
    ...text.matchAll(/^(?:import|export)\b[^'";]*?\bfrom\s*'([^']+)'/gm),
    ...text.matchAll(/^import\s*'([^']+)'/gm),
    ...text.matchAll(/\bimport\(\s*'([^']+)'\s*\)/g),
  ].map(([, specifier = '']) => specifier);
  return specifiers.map((specifier) =>
    specifier.startsWith('.') ? path.posix.join(path.posix.dirname(file), specifier) : specifier,
  );
}

function codeOf(file: string): string {
  return readFileSync(path.join(src, file), 'utf8').replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '');
}

/** `target` for postgres/connection/connect.ts, `run.ts` for itself. */
function roomOf(file: string): string {
  return file.split('/')[0] ?? '';
}

function ours(file: string): string[] {
  return (imports.get(file) ?? []).filter((imported) => imports.has(imported));
}

function backwards(file: string): string[] {
  const room = roomOf(file);
  return ours(file)
    .filter((imported) => !SHARED.has(imported) && roomOf(imported) !== room)
    .filter((imported) => SHARED.has(file) || ROOMS.indexOf(roomOf(imported)) > ROOMS.indexOf(room))
    .map((imported) => `${file} imports ${imported}`);
}

function reachable(from: string[], seen = new Set<string>()): Set<string> {
  for (const file of from) {
    if (seen.has(file)) continue;
    seen.add(file);
    reachable(ours(file), seen);
  }
  return seen;
}

/** What is loaded with a file, without what it loads later; types are gone by then. */
function loadedWith(file: string, seen = new Set<string>()): Set<string> {
  if (seen.has(file)) return seen;
  seen.add(file);
  if (!imports.has(file)) return seen;
  const values = [
    ...codeOf(file).matchAll(/^(?:import|export)\s+(?!type\b)[^'";]*?\bfrom\s*'([^']+)'/gm),
    ...codeOf(file).matchAll(/^import\s*'([^']+)'/gm),
  ].map(([, specifier = '']) => specifier);
  for (const specifier of values)
    loadedWith(
      specifier.startsWith('.') ? path.posix.join(path.posix.dirname(file), specifier) : specifier,
      seen,
    );
  return seen;
}

/** @returns the files of one cycle in their order, if there is one. */
function cycle(): string[] | undefined {
  const finished = new Set<string>();
  const visit = (file: string, way: string[]): string[] | undefined => {
    if (way.includes(file)) return [...way.slice(way.indexOf(file)), file];
    if (finished.has(file)) return undefined;
    for (const imported of ours(file)) {
      const found = visit(imported, [...way, file]);
      if (found) return found;
    }
    finished.add(file);
    return undefined;
  };
  for (const file of files) {
    const found = visit(file, []);
    if (found) return found;
  }
  return undefined;
}

describe('the rooms of src', () => {
  test('are all known, so that each has its place in the order', () => {
    const rooms = files.filter((file) => !SHARED.has(file)).map(roomOf);
    expect([...new Set(rooms)].filter((room) => !ROOMS.includes(room))).toEqual([]);
  });

  test('import from the rooms before them only', () => {
    expect(files.flatMap(backwards)).toEqual([]);
  });

  test('have no cycle between their files', () => {
    expect(cycle()).toBeUndefined();
  });

  test('print and exit in cli only', () => {
    const loud = files
      .filter((file) => roomOf(file) !== 'cli')
      .filter((file) => /\bconsole\.|\bprocess\.(exit|stdout|stderr)\b/.test(codeOf(file)));
    expect(loud).toEqual([]);
  });
});

describe('what makes a start slow', () => {
  test.each(['cli/dispatch.ts', 'cli/commands/run-command-line.ts', 'schema/worker.ts'])(
    'is not loaded with %s',
    (file) => {
      const loaded = loadedWith(file);
      expect(loaded).toContain('errors.ts');
      const slow = ['zod', 'execa', 'libpg-query', 'model/report.ts'];
      expect(slow.filter((each) => loaded.has(each))).toEqual([]);
    },
  );
});

describe.each(PURE)('the pure room %s, with all that it builds upon,', (room) => {
  const pure = [...reachable(files.filter((file) => roomOf(file) === room))];

  test('imports no database, network, file or process', () => {
    const impure = pure.flatMap((file) =>
      (imports.get(file) ?? [])
        .filter((name) => IMPURE_MODULES.test(name))
        .map((name) => `${file} imports ${name}`),
    );
    expect(impure).toEqual([]);
  });

  test('knows no clock, no chance, no environment', () => {
    expect(pure.filter((file) => IMPURE_WORDS.test(codeOf(file)))).toEqual([]);
  });
});
