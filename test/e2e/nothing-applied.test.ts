import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { runProgram } from '../helpers/cli.ts';
import { temporaryDatabase } from '../helpers/database.ts';
import { copyProject, type ProjectId, project } from '../helpers/projects.ts';
import { rehearse } from '../helpers/rehearse.ts';
import { useOwnServers } from '../helpers/servers.ts';

beforeAll(() => useOwnServers(18));

/** Rehearses the migration of a project twice: after it was applied, and after its files were changed then. */
async function afterwards(id: ProjectId, change: (folder: string) => Promise<void>, ...args: string[]) {
  const target = await temporaryDatabase(18);
  const { folder, remove } = await copyProject(id);
  try {
    const { command, environment } = project(id);
    const env = environment(target.url);
    const applied = await runProgram(command, { folder, env });
    expect(applied.exitCode, applied.stderr).toBe(0);
    const told = async () => {
      const { report, exitCode } = await rehearse(target.url, command, { folder, env, args });
      expect(report.command.exitCode).toBe(0);
      const { hazards, verdict } = report;
      const files = hazards.filter(({ code }) => code === 'NOTHING_APPLIED');
      return { exitCode, told: files.map(({ message }) => message), verdict };
    };
    const before = await told();
    await change(folder);
    return { before, after: await told() };
  } finally {
    await remove();
    await target.drop();
  }
}

describe('a command that succeeds without effect', () => {
  test('since Drizzle passes over a migration that is older than the last applied one', async () => {
    const { before, after } = await afterwards('drizzle', async (folder) => {
      const file = path.join(folder, 'drizzle/meta/_journal.json');
      const journal = JSON.parse(await readFile(file, 'utf8')) as {
        entries: { when: number; tag: string }[];
      };
      const last = journal.entries.at(-1);
      journal.entries.push({ ...last, tag: '0004_of_a_branch', when: (last?.when ?? 0) - 1 });
      await writeFile(file, JSON.stringify(journal));
      await writeFile(path.join(folder, 'drizzle/0004_of_a_branch.sql'), 'CREATE TABLE branch (id int);');
    });
    expect(before).toMatchObject({ exitCode: 0, told: [] });
    expect(after).toMatchObject({
      exitCode: 0,
      told: ['Drizzle passes over drizzle/0004_of_a_branch.sql, since later migrations are applied'],
    });
  });

  test('since dbmate takes two migrations of one version for the same', async () => {
    const { before, after } = await afterwards('dbmate', (folder) =>
      writeFile(
        path.join(folder, 'db/migrations/20260106090000_prices.sql'),
        '-- migrate:up\nCREATE TABLE prices (id int);\n\n-- migrate:down\nDROP TABLE prices;\n',
      ),
    );
    expect(before.told).toEqual([]);
    expect(after.told).toEqual([
      'dbmate has applied only one of db/migrations/20260106090000_orders.sql, db/migrations/20260106090000_prices.sql: they have the same version',
    ]);
  });

  test('since a build of TypeORM is older than its sources', async () => {
    const { before, after } = await afterwards('typeorm', (folder) =>
      writeFile(path.join(folder, 'migrations/1769000000000-prices.ts'), 'export class Prices {}'),
    );
    expect(before.told).toEqual([]);
    expect(after.told).toEqual([
      'TypeORM applied nothing, and has not applied migrations/1769000000000-prices.ts',
    ]);
  });

  test('fails with --expect changes, although the tool locks itself with a row', async () => {
    const { before, after } = await afterwards(
      'knex',
      (folder) =>
        writeFile(
          path.join(folder, 'migrations/20260201_next.js'),
          "export const up = (knex) => knex.schema.raw('CREATE TABLE next (id int)');\nexport const down = () => {};\n",
        ),
      '--expect',
      'changes',
    );
    expect(before.exitCode).toBe(1);
    expect(before.verdict.objections).toMatchObject([{ code: 'NOTHING_APPLIED' }]);
    expect(after).toMatchObject({ exitCode: 0, told: [], verdict: { pass: true } });
  });
});
