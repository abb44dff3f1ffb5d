import { readFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { rehearse } from '../../src/index.ts';
import { plainEnvironment, temporaryFolder } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { type LoopFileSystem, loopFileSystem, loopFileSystemObstacle } from '../helpers/file-system.ts';
import { type PlacedServer, placedServer } from '../helpers/placed-server.ts';
import { psqlCommand } from '../helpers/rehearse.ts';
import { skipReason } from '../helpers/requirements.ts';

const MB = 2 ** 20;

describe.skipIf(skipReason(await loopFileSystemObstacle('xfs')))('on PostgreSQL 19', () => {
  let disk: LoopFileSystem;
  let server: PlacedServer;

  beforeAll(async () => {
    disk = await loopFileSystem('xfs', 1024 * MB);
    server = await placedServer(19, { parent: disk.folder });
    await withClient(server.url, (client) =>
      client.query(`CREATE TABLE big (id int PRIMARY KEY, note text);
        INSERT INTO big SELECT n, repeat('x', 100) FROM generate_series(1, 20000) n; CREATE TABLE keyless (id int)`),
    );
  }, 60_000);
  afterAll(async () => {
    await server?.stop();
    await disk?.destroy();
  });

  const proposal = async (statement: string) => {
    const file = path.join(temporaryFolder(), 'safer.sql');
    const report = await rehearse({
      command: psqlCommand('-c', statement),
      env: { ...plainEnvironment(), DATABASE_URL: server.url },
      clone: { method: 'cluster' },
      propose: file,
    });
    return { report, script: () => readFileSync(file, 'utf8') };
  };

  test.each([
    ['VACUUM_FULL', 'VACUUM FULL big', /^REPACK \(CONCURRENTLY\) (public\.)?big;$/m],
    [
      'CLUSTER',
      'CLUSTER big USING big_pkey',
      /^REPACK \(CONCURRENTLY\) (public\.)?big USING INDEX "big_pkey";$/m,
    ],
    ['REPACK', 'REPACK big', /^REPACK \(CONCURRENTLY\) (public\.)?big;$/m],
  ])('%s is proposed as REPACK (CONCURRENTLY), and that is proved', async (code, statement, line) => {
    const { report, script } = await proposal(statement);
    expect(report.hazards.map((each) => each.code)).toContain(code);
    expect(report.proposal).toMatchObject({ outcome: 'proved', reasons: [] });
    expect(script()).toMatch(line);
  });

  test('a table without a key keeps its statement, with the reason', async () => {
    const { report } = await proposal('VACUUM FULL keyless');
    expect(report.proposal?.left.map(({ words }) => words).join()).toContain('needs a primary key');
  });

  test('REPACK (CONCURRENTLY) runs on the clone, and its locks are those that it takes', async () => {
    const { report } = await proposal('REPACK (CONCURRENTLY) big');
    expect(report.command.exitCode).toBe(0);
    const [statement] = report.statements.filter(({ sql }) => sql.startsWith('REPACK'));
    const modes = statement?.locks
      ?.filter(({ relation }) => relation === 'public.big')
      .map(({ mode }) => mode);
    expect(modes?.sort()).toEqual(['ACCESS EXCLUSIVE', 'SHARE UPDATE EXCLUSIVE']);
    expect(statement?.rewrote).toContain('public.big');
    expect(report.hazards.map(({ code, evidence }) => `${code}: ${evidence}`)).toEqual([
      expect.stringMatching(/^NO_LOCK_TIMEOUT: ACCESS EXCLUSIVE on public\.big/),
    ]);
  });

  test("in a clone in the target's server it is refused: its slot would raise the WAL level there", async () => {
    const report = await rehearse({
      command: psqlCommand('-c', 'REPACK (CONCURRENTLY) big'),
      env: { ...plainEnvironment(), DATABASE_URL: server.url },
      clone: { method: 'template' },
    });
    expect(report.command.refused).toMatchObject([{ what: 'REPACK (CONCURRENTLY)' }]);
    expect(report.verdict.pass).toBe(false);
    expect(report.target.unchanged).toBe(true);
  });
});
