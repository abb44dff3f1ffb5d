import { beforeAll, describe, expect, test } from 'vitest';
import { runProgram, safemigrate } from '../helpers/cli.ts';
import { temporaryDatabase } from '../helpers/database.ts';
import { copyProject, project } from '../helpers/projects.ts';
import { useOwnServers } from '../helpers/servers.ts';

beforeAll(() => useOwnServers(18));

describe('--expect no-change', () => {
  test('does not pass before a migration, and passes after it', async () => {
    const target = await temporaryDatabase(18);
    const { folder, remove } = await copyProject('knex');
    try {
      const knex = project('knex');
      const env = knex.environment(target.url);
      const gate = () => safemigrate(['--expect', 'no-change', '--', ...knex.command], { folder, env });
      const before = await gate();
      expect(before.exitCode).toBe(1);
      expect(before.stderr).toMatch(
        /would change the database, and --expect\s+no-change\s+allows no change:/,
      );
      await runProgram(knex.command, { folder, env });
      const after = await gate();
      expect(after.exitCode, after.stderr).toBe(0);
    } finally {
      await remove();
    }
  });
});
