import { cpSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { runProgram, safemigrate, temporaryFolder } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { type DriverProgram, LANGUAGES } from '../helpers/drivers.ts';
import { ownServer } from '../helpers/own-server.ts';
import { readReport } from '../helpers/read-report.ts';
import { skipReason } from '../helpers/requirements.ts';
import { digestOf, fingerprintOf, withDatabase } from '../helpers/target-state.ts';
import { toolchain } from '../helpers/toolchains.ts';

const SCHEMA = fileURLToPath(new URL('../../fixtures/drivers/schema.sql', import.meta.url));

/** What has to hold for each driver: it connects and migrates in a rehearsal as it does directly. */
export async function testDrivers(programs: readonly DriverProgram[]): Promise<void> {
  const names = [...new Set(programs.map((program) => program.language))];
  for (const name of names) {
    const { folder, toolchain: wanted, installedAs } = LANGUAGES[name];
    const found = await toolchain(installedAs, folder, wanted);
    const own = programs.filter((program) => program.language === name);
    if ('missing' in found)
      describe.skipIf(skipReason(found.missing))(name, () => test.todo('needs its drivers'));
    else describe(name, () => testsOf(own, folder, found.folder));
  }
}

function testsOf(programs: readonly DriverProgram[], fixture: string, installed: string): void {
  let server: Server;

  beforeAll(async () => {
    server = await ownServer(18);
    await withClient(server.url, async (client) => {
      for (const [index] of programs.entries()) {
        await client.query(`CREATE DATABASE direct_${index}`);
        await client.query(`CREATE DATABASE target_${index}`);
      }
    });
  });

  // With the server end the clones that were kept.
  afterAll(() => server.stop());

  test.each(programs.map((program, index) => ({ ...program, index })))(
    '$name connects and migrates in a rehearsal as it does directly',
    async ({ command, variables, apart, index }) => {
      const folder = temporaryFolder();
      cpSync(fixture, folder, { recursive: true });
      cpSync(SCHEMA, path.join(folder, 'schema.sql'));
      if (fixture === LANGUAGES.node.folder)
        symlinkSync(path.join(installed, 'node_modules'), path.join(folder, 'node_modules'));
      const [direct, target] = [
        withDatabase(server.url, `direct_${index}`),
        withDatabase(server.url, `target_${index}`),
      ];
      const words = command(installed);
      const theirs = await runProgram(words, { folder, env: variables(new URL(direct)) });
      expect(theirs.exitCode, theirs.stdout + theirs.stderr).toBe(0);

      const before = await digestOf(target);
      const where = apart ? ['--url', target] : [];
      const ours = await safemigrate(['--format', 'json', '--keep', ...where, '--', ...words], {
        folder,
        env: variables(new URL(target)),
      });
      expect(ours.exitCode, ours.stdout + ours.stderr).toBe(0);
      const report = readReport(ours.stdout);
      expect(report.command).toMatchObject({ byAddress: true, rewritten: [] });
      expect(report.command.added).not.toContain('DATABASE_URL');
      expect(await fingerprintOf(withDatabase(target, report.clone.database))).toBe(
        await fingerprintOf(direct),
      );
      expect(await digestOf(target)).toEqual(before);
    },
  );
}
