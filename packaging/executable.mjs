// npm run package: the single executable release/safemigrate-<version>-<platform>-<architecture>, and the same compressed (.gz).
//
// It is Node's program with main.cjs in it (a single-executable application). What an npm package has as files are assets inside it. It unpacks nothing when it starts, and looks for no package.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { inject } from 'postject';
import { rolldown } from 'rolldown';

const NODE = '24.21.0';
/** The packages of the registry that hold Node's own builds. Another content than this is refused. */
const NODE_PACKAGES = {
  'linux-x64':
    'sha512-3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==',
  'linux-arm64':
    'sha512-FpJRPEz2OvvTLfjIOlNGFY9JLPMKgl5m+d4oGYBLg24kJ1mmvN1Zl/HPJgF4HDaJ51ISev1l1cRZ/DM+keXW5g==',
};
/** The word by which Node finds the blob in its own program. */
const FUSE = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2';

const THREADS = ['postgres/sql/parser-thread', 'schema/worker'];

const root = path.join(import.meta.dirname, '..');
const dist = path.join(root, 'dist');
const release = path.join(root, 'release');
const cache = path.join(root, 'node_modules', '.cache', 'executable');
const place = `${process.platform}-${process.arch}`;
const { version } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
const file = path.join(release, `safemigrate-${version}-${place}`);

mkdirSync(cache, { recursive: true });
mkdirSync(release, { recursive: true });
rmSync(path.join(cache, 'made'), { recursive: true, force: true });
const packages = new Set();
const node = nodeProgram();
const config = {
  main: path.join(import.meta.dirname, 'main.cjs'),
  output: path.join(cache, 'blob'),
  disableExperimentalSEAWarning: true,
  // Variables of Node are for the wrapped command, not for us.
  execArgvExtension: 'none',
  assets: await assets(),
};
writeFileSync(path.join(cache, 'config.json'), JSON.stringify(config));
run(node, ['--experimental-sea-config', path.join(cache, 'config.json')]);
rmSync(file, { force: true });
cpSync(node, file);
await inject(file, 'NODE_SEA_BLOB', readFileSync(config.output), {
  sentinelFuse: FUSE,
  machoSegmentName: process.platform === 'darwin' ? 'NODE_SEA' : undefined,
});
if (process.platform === 'darwin') run('codesign', ['--sign', '-', file]);
chmodSync(file, 0o755);
writeFileSync(`${file}.gz`, gzipSync(readFileSync(file), { level: 9 }));
writeFileSync(path.join(release, 'THIRD-PARTY-LICENSES'), licences());
process.stdout.write(`${path.relative(root, file)}\n`);

/** Node's program without its symbols, which are a fifth of it. On a platform without a package it is the one that runs this. */
function nodeProgram() {
  const name = `node-${place}`;
  const kept = path.join(cache, `${name}-${NODE}`);
  if (existsSync(path.join(kept, 'node'))) return path.join(kept, 'node');
  mkdirSync(kept, { recursive: true });
  const made = path.join(kept, 'made');
  const integrity = NODE_PACKAGES[place];
  if (integrity === undefined) {
    if (process.versions.node !== NODE) throw new Error(`on ${place}, start this by Node ${NODE}`);
    cpSync(process.execPath, made);
    cpSync(path.join(path.dirname(process.execPath), '..', 'LICENSE'), path.join(kept, 'LICENSE'));
  } else {
    run('npm', ['pack', '--silent', `${name}@${NODE}`, '--pack-destination', kept]);
    const tarball = path.join(kept, `${name}-${NODE}.tgz`);
    const found = `sha512-${createHash('sha512').update(readFileSync(tarball)).digest('base64')}`;
    if (found !== integrity) throw new Error(`${name}@${NODE} is not the package that is expected: ${found}`);
    run('tar', ['-xzf', tarball, '-C', kept, '--strip-components=1', 'package/bin/node', 'package/LICENSE']);
    cpSync(path.join(kept, 'bin', 'node'), made);
    rmSync(tarball);
    rmSync(path.join(kept, 'bin'), { recursive: true });
  }
  run('strip', process.platform === 'darwin' ? ['-x', made] : [made]);
  cpSync(made, path.join(kept, 'node'));
  rmSync(made);
  return path.join(kept, 'node');
}

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
    const [, inPackage] = /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(id) ?? [];
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

function licences() {
  const texts = [...packages].sort().map((name) => {
    const folder = path.join(root, 'node_modules', name);
    const { version: release, license } = JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8'));
    const text = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
    return `${name} ${release} (${license})\n\n${text ? readFileSync(path.join(folder, text), 'utf8').trim() : ''}\n`;
  });
  const own = readFileSync(path.join(path.dirname(node), 'LICENSE'), 'utf8').trim();
  return [`Node.js ${NODE}\n\n${own}\n`, ...texts].join('\n');
}

function run(program, words) {
  const { status, error } = spawnSync(program, words, { stdio: ['ignore', 'ignore', 'inherit'] });
  if (status !== 0) throw error ?? new Error(`${program} ended with exit code ${status}`);
}
