import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';

/**
 * The folders of src, and the files beside them, from the bottom up: each imports only from itself and from what stands before
 * it. There are no exceptions.
 */
const LAYERS = [
  'clock.ts',
  'errors.ts',
  'format.ts',
  'events.ts',
  'package.ts',
  'scope.ts',
  'stop.ts',
  'value-types.ts',
  'settings.ts',
  'model',
  'measured.ts',
  'postgres',
  'database',
  'ownership',
  'local-server',
  'clone',
  'command',
  'proxy',
  'schema',
  'proof',
  'boundary',
  'observe',
  'load',
  'hazards',
  'propose',
  'report',
  'rehearsal',
  'upgrade',
  'apply',
  'swap',
  'doctor',
  'index.ts',
  'cli',
];

/** Folders whose functions get values and return values. */
const PURE = ['model', 'hazards', 'report'];
const IMPURE_MODULES =
  /^(pg|execa|libpg-query|@supabase\/.*|node:(child_process|cluster|dgram|dns|fs|http2?|https|net|tls|os|process|perf_hooks|timers|worker_threads)(\/.*)?)$/;
const IMPURE_WORDS =
  /\bDate\.now\b|\bnew Date\(\)|\bperformance\.|\bprocess\.|\bsetTimeout\b|\bMath\.random\b/;

const EXPORTED =
  /^export (?:declare )?(?:abstract )?(?:async )?(?:function\*?|class|const|let|interface|type|enum) (\w+)/gm;

const src = fileURLToPath(new URL('../../src', import.meta.url));
const files = readdirSync(src, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .map((file) => file.replaceAll(path.sep, '/'));

const imports = new Map(files.map((file) => [file, importsOf(file)]));

/** Paths relative to src for files of ours, names for modules. */
function importsOf(file: string): string[] {
  const code = codeOf(file);
  const later = code.matchAll(/\bimport\(\s*'([^']+)'\s*\)/g);
  return [
    ...pathsFrom(file, code.matchAll(/^(?:import|export)\b[^'";]*?\bfrom\s*'([^']+)'/gm)),
    ...pathsFrom(file, code.matchAll(/^import\s*'([^']+)'/gm)),
    ...pathsFrom(file, later),
  ];
}

/** Without types, and without what is imported later. */
function loadedBy(file: string): string[] {
  const code = codeOf(file);
  return [
    ...pathsFrom(file, code.matchAll(/^(?:import|export)\s+(?!type\b)[^'";]*?\bfrom\s*'([^']+)'/gm)),
    ...pathsFrom(file, code.matchAll(/^import\s*'([^']+)'/gm)),
  ];
}

function pathsFrom(file: string, specifiers: Iterable<RegExpExecArray>): string[] {
  return [...specifiers].map(([, specifier = '']) =>
    specifier.startsWith('.') ? path.posix.join(path.posix.dirname(file), specifier) : specifier,
  );
}

function codeOf(file: string): string {
  return readFileSync(path.join(src, file), 'utf8').replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '');
}

/** `schema` for schema/objects.ts, `scope.ts` for itself. */
function layerOf(file: string): string {
  return file.split('/')[0] ?? '';
}

function ours(file: string): string[] {
  return (imports.get(file) ?? []).filter((imported) => imports.has(imported));
}

function upwards(file: string): string[] {
  const layer = LAYERS.indexOf(layerOf(file));
  return ours(file)
    .filter((imported) => LAYERS.indexOf(layerOf(imported)) > layer)
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

/** The files and modules that are loaded together with a file; neither types nor what it imports later. */
function loadedWith(file: string, seen = new Set<string>()): Set<string> {
  if (seen.has(file)) return seen;
  seen.add(file);
  if (!imports.has(file)) return seen;
  for (const imported of loadedBy(file)) loadedWith(imported, seen);
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

describe('the folders of src', () => {
  test('are all listed, so that each has its place in the order', () => {
    expect([...new Set(files.map(layerOf))].filter((layer) => !LAYERS.includes(layer))).toEqual([]);
  });

  test('import only from the folders below them', () => {
    expect(files.flatMap(upwards)).toEqual([]);
  });

  test('hold no two files of the same name', () => {
    const names = files.map((file) => path.posix.basename(file)).sort();
    expect(names.filter((name, index) => names[index - 1] === name)).toEqual([]);
  });

  test('export each name once', () => {
    const declared = files
      .filter((file) => file !== 'index.ts' && !file.endsWith('.d.ts'))
      .flatMap((file) =>
        [...new Set([...codeOf(file).matchAll(EXPORTED)].map(([, name = '']) => name))].map((name) => ({
          name,
          file,
        })),
      );
    const byName = new Map<string, string[]>();
    for (const { name, file } of declared) byName.set(name, [...(byName.get(name) ?? []), file]);
    const ambiguous = [...byName].filter(([, places]) => places.length > 1);
    expect(ambiguous.map(([name, places]) => `${name}: ${places.join(', ')}`)).toEqual([]);
  });

  test('have no cycle between their files', () => {
    expect(cycle()).toBeUndefined();
  });

  test('print and exit in cli only', () => {
    const loud = files
      .filter((file) => layerOf(file) !== 'cli')
      .filter((file) => /\bconsole\.|\bprocess\.(exit|stdout|stderr)\b/.test(codeOf(file)));
    expect(loud).toEqual([]);
  });
});

describe('for a quick start', () => {
  test.each([
    ['cli/main.ts', []],
    ['cli/dispatch.ts', ['commander']],
    [
      'rehearsal/rehearse.ts',
      ['zod/mini', 'dotenv', 'pg-protocol', 'pg/lib/crypto/cert-signatures.js', 'pg/lib/crypto/sasl.js'],
    ],
    ['report/text.ts', ['diff/lib/diff/array.js']],
  ])('%s loads of all packages only %j', (file, packages) => {
    const loaded = [...loadedWith(file)].filter((each) => !imports.has(each) && !each.startsWith('node:'));
    expect(loaded).toEqual(packages);
  });

  test('the names of services load none of their recipes', () => {
    const loaded = [...loadedWith('clone/clone-settings.ts')];
    expect(loaded.filter((file) => file.startsWith('clone/services/'))).toEqual([
      'clone/services/service-list.ts',
    ]);
  });
});

describe.each(PURE)('the pure folder %s, with all that it builds upon,', (folder) => {
  const pure = [...reachable(files.filter((file) => layerOf(file) === folder))];

  test('imports no database, network, file or process', () => {
    const impure = pure.flatMap((file) =>
      (imports.get(file) ?? [])
        // The parser's types describe trees, which are values.
        .filter(
          (name) => IMPURE_MODULES.test(name) && !(name === 'libpg-query' && !loadedBy(file).includes(name)),
        )
        .map((name) => `${file} imports ${name}`),
    );
    expect(impure).toEqual([]);
  });

  test('knows no clock, no chance, no environment', () => {
    expect(pure.filter((file) => IMPURE_WORDS.test(codeOf(file)))).toEqual([]);
  });
});
