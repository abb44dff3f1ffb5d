import { writeFileSync } from 'node:fs';
import path from 'node:path';
import type { ServerVersion } from '../../../src/local-server/binaries.ts';
import { temporaryFolder } from '../cli.ts';
import type { Disagreement } from './disagreements.ts';
import { COMMAND, disagreementsOfNumbers, readNumbers, TARGET } from './numbers.ts';
import { rehearseUnderWatch } from './watched-rehearsal.ts';

/** Rehearses a migration that has something for every number, sent by psql. */
export async function measureNumbers(
  version: ServerVersion,
  program?: readonly string[],
): Promise<Disagreement[]> {
  const folder = temporaryFolder();
  writeFileSync(path.join(folder, 'migration.sql'), COMMAND);
  const psql = [
    'sh',
    '-c',
    'exec psql -X -q -v ON_ERROR_STOP=1 -o /dev/null "$DATABASE_URL" -f migration.sql',
  ];
  writeFileSync(path.join(folder, 'programs.json'), JSON.stringify({ atOnce: 1, programs: [psql] }));
  return rehearseUnderWatch(version, { sql: TARGET, folder, ...(program && { program }) }, async (run) =>
    disagreementsOfNumbers(await readNumbers(run)),
  );
}
