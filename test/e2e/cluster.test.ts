import { chownSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { PROGRAM, runProgram, safemigrate, sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { changedUrl } from '../helpers/cloning.ts';
import { type LoopFileSystem, loopFileSystem, loopFileSystemObstacle } from '../helpers/file-system.ts';
import { asUser } from '../helpers/other-user.ts';
import { ownFolder, type PlacedServer, placedServer, SERVER_UID } from '../helpers/placed-server.ts';
import { readReport } from '../helpers/read-report.ts';
import { rehearse } from '../helpers/rehearse.ts';
import { skipReason } from '../helpers/requirements.ts';
import { makeAccounts, startTransfers } from '../helpers/transfers.ts';

const MB = 2 ** 20;
/** Other tests clone inside the server unless they say otherwise. */
const AS_A_USER = { SAFEMIGRATE_CLONE: 'auto' };
const MIGRATION = sqlCommand('ALTER TABLE account ADD COLUMN note text');

describe('a target in use, on XFS', async () => {
  const obstacle = skipReason(await loopFileSystemObstacle('xfs'));
  let disk: LoopFileSystem | undefined;
  let server: PlacedServer;
  let url: string;

  beforeAll(async () => {
    if (obstacle) return;
    disk = await loopFileSystem('xfs', 768 * MB);
    server = await placedServer(18, { parent: disk.folder, settings: { max_wal_size: '100MB' } });
    url = changedUrl(server.url, { database: 'app' });
    await withClient(server.url, (client) => client.query('CREATE DATABASE app'));
    await makeAccounts(url);
  }, 60_000);

  afterAll(async () => {
    await server?.stop();
    await disk?.destroy();
  });

  test.skipIf(obstacle)(
    'is rehearsed on a copy of its cluster without being told to, and nobody on it notices',
    async () => {
      const transfers = await startTransfers(url, 2);
      try {
        const { report, exitCode, stderr } = await rehearse(url, MIGRATION, { env: AS_A_USER });
        expect(exitCode, stderr).toBe(0);
        expect(report.clone).toMatchObject({
          method: 'cluster',
          strategy: 'reflink',
          isolation: 'own-cluster',
          database: 'app',
        });
        expect(report.clone.considered.map(({ method }) => method)).toContain('template');
        expect(report.target.touched.join()).toContain('pg_backup_start');
        expect(report.target.changes).toEqual([]);
        expect(report.schema?.changes.map(({ object }) => object)).toContain('public.account.note');
        expect(report.cleanup.failed).toEqual([]);
      } finally {
        await transfers.end();
      }
      const { failed, committed } = await transfers.end();
      expect(failed).toBe(0);
      expect(committed).toBeGreaterThan(0);
    },
    60_000,
  );

  test.skipIf(obstacle)(
    'is rehearsed together with another database that --database names, and with no third one',
    async () => {
      await withClient(server.url, async (client) => {
        await client.query('CREATE DATABASE reports');
        await client.query('CREATE DATABASE archive');
      });
      const reports = changedUrl(url, { database: 'reports' });
      await withClient(reports, (client) => client.query('CREATE TABLE daily (day date)'));
      const env = { ...AS_A_USER, REPORTS_URL: reports };
      const sql = 'psql -qX -v ON_ERROR_STOP=1';
      const command = [
        ...['sh', '-ec'],
        `${sql} -c 'ALTER TABLE daily ADD COLUMN total int' "$REPORTS_URL"
         ${sql} -c 'ALTER TABLE account ADD COLUMN note text' "$DATABASE_URL"
         ! ${sql} -c 'SELECT 1' "$(echo "$DATABASE_URL" | sed 's#/app#/archive#')"`,
      ];
      const { report, exitCode, stderr } = await rehearse(url, command, {
        env,
        args: ['--database', 'reports'],
      });
      expect(exitCode, stderr).toBe(0);
      expect(report.command).toMatchObject({ byAddress: true, rewritten: [] });
      expect(report.caveats.map(({ reason }) => reason)).toContain(
        'the schema and the data of reports were not compared, only those of the target',
      );
      await withClient(reports, async (client) => {
        expect((await client.query('SELECT * FROM daily')).fields.map(({ name }) => name)).toEqual(['day']);
      });
      const copying = await rehearse(url, sqlCommand('CREATE DATABASE copied TEMPLATE archive'), { env });
      expect(copying.exitCode).toBe(1);
      expect(copying.stderr).toMatch(/the clone does not have the files of the database "archive"/);
      const wrong = await safemigrate(['--database', 'nosuch', '--', ...command], {
        env: { ...env, DATABASE_URL: url },
      });
      expect(wrong.exitCode).toBe(3);
      expect(wrong.stderr).toMatch(/no database nosuch, which --database names/);
    },
    60_000,
  );

  test.skipIf(obstacle)('is rehearsed on an isolated copy although nobody else is on it', async () => {
    const { report } = await rehearse(url, MIGRATION, { env: AS_A_USER });
    const reason = 'preferred to template, which would be ready sooner, because it is isolated';
    expect(report.clone).toMatchObject({
      method: 'cluster',
      containment: 'sandbox',
      exposure: null,
      reason: expect.stringContaining(reason),
    });
    const plan = await safemigrate(['--plan', '--', ...MIGRATION], {
      env: { ...AS_A_USER, DATABASE_URL: url },
    });
    expect(plan.stdout).toMatch(new RegExp(`-- clone: cluster \\(reflink\\): .*${reason}`));
  });

  test.skipIf(obstacle)(
    'is rehearsed in its own server if the role may not copy it, and the reason says so',
    async () => {
      await withClient(url, (client) =>
        client.query(`CREATE ROLE keeper LOGIN PASSWORD 'x' CREATEDB; ALTER DATABASE app OWNER TO keeper`),
      );
      const { report } = await rehearse(
        changedUrl(url, { user: 'keeper', password: 'x' }),
        sqlCommand('SELECT 1'),
        {
          env: AS_A_USER,
        },
      );
      expect(report.clone).toMatchObject({
        method: 'template',
        containment: 'target-server',
        exposure: null,
        reason: expect.stringMatching(
          /nothing isolated was chosen, because cluster is impossible: the role keeper/,
        ),
      });
    },
  );

  test.skipIf(obstacle)(
    "is rehearsed by the server's own user just as by root",
    async () => {
      const home = await mkdtemp(path.join(tmpdir(), 'safemigrate-home-'));
      try {
        const state = path.join(home, 'state');
        await ownFolder(state);
        await runProgram(['chmod', '755', home]);
        const words = ['--clone', 'cluster', '--format', 'json', '--', ...MIGRATION];
        const { exitCode, stdout, stderr } = await runProgram([...asUser(SERVER_UID), ...PROGRAM, ...words], {
          env: { DATABASE_URL: url, HOME: state, XDG_STATE_HOME: state },
        });
        expect(exitCode, stderr).toBe(0);
        const report = readReport(stdout);
        expect(report.clone).toMatchObject({
          method: 'cluster',
          strategy: 'reflink',
          containment: 'sandbox',
        });
      } finally {
        await rm(home, { recursive: true, force: true });
      }
    },
    60_000,
  );

  test.skipIf(obstacle)('another user is told which one it would have to be', async () => {
    const state = temporaryFolder();
    chownSync(state, 65_533, 65_533);
    const { exitCode, stderr } = await runProgram(
      [...asUser(65_533), ...PROGRAM, '--clone', 'cluster', '--', ...MIGRATION],
      { env: { DATABASE_URL: url, HOME: tmpdir(), XDG_STATE_HOME: state } },
    );
    expect(exitCode).toBe(3);
    expect(stderr).toMatch(/cannot be reached by this user|belongs to another user/);
    expect(stderr).toContain('as root');
  });
});
