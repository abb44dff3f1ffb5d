// npm run package: the single executable release/safemigrate-<version>-<platform>-<architecture>, the same compressed (.gz), and its
// list of parts (.cdx.json). `npm run package -- musl` makes that for Alpine, on any Linux (x64), `-- linux-arm64` and
// `-- linux-arm64-musl` those for the other processor.
//
// It is Node's program with main.cjs in it (a single-executable application). What an npm package has as files are assets inside it. It unpacks nothing when it starts, and looks for no package.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { inject } from 'postject';
import { rolldown } from 'rolldown';
import { commitTime, release, root, version } from './facts.mjs';
import { MUSL, NODE, nodeBuild } from './node-build.mjs';
import { partsList } from './parts-list.mjs';
import { run } from './wheel.mjs';

/** The word by which Node finds the blob in its own program. */
const FUSE = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2';

const THREADS = ['postgres/sql/parser-thread', 'schema/worker'];

const dist = path.join(root, 'dist');
const cache = path.join(root, 'node_modules', '.cache', 'executable');
const here = `${process.platform}-${process.arch}`;
const [, , other = here] = process.argv;
if (![here, 'musl', 'linux-arm64', 'linux-arm64-musl'].includes(other))
  throw new Error(`no executable can be made here for ${other}`);
const place = other === 'musl' ? `${here}-musl` : other;
const musl = place.endsWith('-musl');
const file = path.join(release, `safemigrate-${version}-${place}`);

process.chdir(root);
mkdirSync(cache, { recursive: true });
mkdirSync(release, { recursive: true });
rmSync(path.join(cache, 'made'), { recursive: true, force: true });
/** Folders of the packages that are in the file. */
const packages = new Set();
const wanted = musl ? MUSL.version : NODE;
// What is put into Node depends neither on its libc nor on the processor. One that runs here makes it.
const maker = nodeBuild(here, wanted, cache);
const node = nodeBuild(place, wanted, cache);
const config = {
  // Node keeps this name in the blob, so it may not depend on where the clone is.
  main: 'packaging/main.cjs',
  output: path.join(cache, 'blob'),
  disableExperimentalSEAWarning: true,
  // Variables of Node are for the wrapped command, not for us.
  execArgvExtension: 'none',
  assets: await assets(),
};
writeFileSync(path.join(cache, 'config.json'), JSON.stringify(config));
run(maker.program, ['--experimental-sea-config', path.join(cache, 'config.json')]);
rmSync(file, { force: true });
cpSync(node.program, file);
await inject(file, 'NODE_SEA_BLOB', readFileSync(config.output), {
  sentinelFuse: FUSE,
  machoSegmentName: process.platform === 'darwin' ? 'NODE_SEA' : undefined,
});
if (process.platform === 'darwin') run('codesign', ['--sign', '-', file]);
chmodSync(file, 0o755);
const content = readFileSync(file);
writeFileSync(`${file}.gz`, gzipSync(content, { level: 9 }));
writeFileSync(
  `${file}.cdx.json`,
  `${JSON.stringify(
    partsList({
      root,
      version,
      packages: new Set([...packages].map(facts).map(({ name, version: of }) => `${name}@${of}`)),
      node: {
        ...node,
        libraries: JSON.parse(execFileSync(maker.program, ['-p', 'JSON.stringify(process.versions)'])),
      },
      sha256: createHash('sha256').update(content).digest('hex'),
      time: commitTime(),
    }),
    null,
    2,
  )}\n`,
);
writeFileSync(path.join(release, 'THIRD-PARTY-LICENSES'), licences());
process.stdout.write(`${path.relative(root, file)}\n`);

/** Writes CommonJS files with everything that a program needs but Node itself. @returns their names and places. */
async function bundle(input, chunks) {
  const folder = path.join(cache, 'made', path.basename(input));
  const build = await rolldown({
    input: { [input]: path.join(root, 'src', `${input}.ts`) },
    platform: 'node',
    transform: { target: 'node24' },
    // pg would use it if it were installed.
    external: ['pg-native'],
    plugins: [{ name: 'inside', transform: { handler: inside } }],
  });
  const { output } = await build.write({
    dir: folder,
    format: 'cjs',
    entryFileNames: '[name].cjs',
    chunkFileNames: 'chunks/[name]-[hash].cjs',
    codeSplitting: chunks,
    comments: { legal: false },
  });
  for (const id of output.flatMap(({ moduleIds = [] }) => moduleIds)) {
    const [, inPackage] = /^\0?(.*\/node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(id) ?? [];
    if (inPackage) packages.add(inPackage);
  }
  return output.map(({ fileName }) => [fileName, path.join(folder, fileName)]);
}

/** Replaces what looks for files: a package that is loaded when it is first needed, and the parser's WebAssembly. */
function inside(code, id) {
  const require = 'const require = createRequire(import.meta.url);\n';
  if (id.startsWith(path.join(root, 'src')) && code.includes(require)) return code.replace(require, '');
  if (!id.endsWith('libpg-query.js')) return undefined;
  const start = 'async function getWasmBinary(binaryFile){';
  if (!code.includes(start)) throw new Error('libpg-query loads its WebAssembly in another way');
  return code.replace(
    start,
    `${start}return new Uint8Array(require("node:sea").getAsset("libpg-query.wasm"));`,
  );
}

async function assets() {
  const require = createRequire(import.meta.url);
  const scripts = readdirSync(dist, { recursive: true })
    .filter((name) => /\.(?:sh|pl|py)$/.test(name))
    .sort();
  // The command line is in pieces, which are read when they are needed; a thread is one text.
  const bundles = [...(await bundle('cli/standalone', true))];
  for (const name of THREADS) bundles.push(...(await bundle(name, false)));
  return Object.fromEntries([
    ['package.json', path.join(root, 'package.json')],
    ['libpg-query.wasm', path.join(path.dirname(require.resolve('libpg-query')), 'libpg-query.wasm')],
    ...scripts.map((name) => [name, path.join(dist, name)]),
    ...bundles,
  ]);
}

function facts(folder) {
  return JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8'));
}

function licences() {
  const texts = [...packages].sort().map((folder) => {
    const { name, version: of, license } = facts(folder);
    const text = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
    return `${name} ${of} (${license})\n\n${text ? readFileSync(path.join(folder, text), 'utf8').trim() : ''}\n`;
  });
  return [`Node.js ${node.version}\n\n${readFileSync(maker.licence, 'utf8').trim()}\n`, ...texts].join('\n');
}
