import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { beforeAll, describe, expect, test } from 'vitest';
import { runProgram, safemigrate, sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { temporaryDatabase } from '../helpers/database.ts';
import { copyProject, project } from '../helpers/projects.ts';
import { useOwnServers } from '../helpers/servers.ts';

beforeAll(() => useOwnServers(18));

describe('--expect nothing', () => {
  test('does not pass before a migration, and passes after it', async () => {
    const target = await temporaryDatabase(18);
    const { folder, remove } = await copyProject('knex');
    try {
      const knex = project('knex');
      const env = knex.environment(target.url);
      const gate = () => safemigrate(['--expect', 'nothing', '--', ...knex.command], { folder, env });
      const before = await gate();
      expect(before.exitCode).toBe(1);
      expect(before.stderr).toMatch(/would change the database, and --expect nothing\s+allows no change:/);
      await runProgram(knex.command, { folder, env });
      const after = await gate();
      expect(after.exitCode, after.stderr).toBe(0);
    } finally {
      await remove();
    }
  });
});

describe('--notify', () => {
  test('sends the verdict of a run, whatever it is, with no value and no password', async () => {
    const target = await temporaryDatabase(18, { sql: 'CREATE TABLE t (a text)' });
    const bodies: string[] = [];
    const server = createServer(async (request, response) => {
      bodies.push(await text(request));
      response.writeHead(204).end();
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const hook = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
    try {
      const run = (sql: string) =>
        safemigrate(['--notify', hook, '--', ...sqlCommand(sql)], { env: { DATABASE_URL: target.url } });
      expect((await run("INSERT INTO t VALUES ('hush')")).exitCode).toBe(0);
      expect((await run('SELECT none FROM t')).exitCode).toBe(1);
    } finally {
      server.close();
    }
    expect(bodies.map((body) => JSON.parse(body))).toMatchObject([
      { mode: 'rehearse', pass: true, database: target.name },
      { mode: 'rehearse', pass: false, database: target.name },
    ]);
    for (const body of bodies) {
      expect(Buffer.byteLength(body)).toBeLessThanOrEqual(2048);
      expect(body).not.toMatch(/hush/);
    }
  });

  test('to a receiver that is not there says so, and leaves the exit code and the report', async () => {
    const target = await temporaryDatabase(18, { sql: 'CREATE TABLE t (a int)' });
    const file = path.join(temporaryFolder(), 'report.json');
    const words = ['--notify', 'http://127.0.0.1:1/hook', '--report', file];
    const run = await safemigrate([...words, '--', ...sqlCommand('ALTER TABLE t ADD COLUMN b int')], {
      env: { DATABASE_URL: target.url },
    });
    expect(run.exitCode, run.stderr).toBe(0);
    expect(run.stderr).toMatch(/The notification was not sent/);
    expect(JSON.parse(readFileSync(file, 'utf8')).verdict.pass).toBe(true);
  });
});
