import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from 'pg';
import { beforeAll, describe, expect, test } from 'vitest';
import { recordedFolders } from '../../src/local-server/recorded-folders.ts';
import { safemigrate, temporaryFolder } from '../helpers/cli.ts';
import { withoutClientPrograms } from '../helpers/client-programs.ts';
import { changedUrl } from '../helpers/cloning.ts';
import { temporaryDatabase, withClient } from '../helpers/database.ts';
import { serverUrl, useOwnServers } from '../helpers/servers.ts';

const skip = await withoutClientPrograms('pg_dump', 'pg_restore');

/** Waits for what the server shows. */
async function until(url: string, look: (client: Client) => Promise<boolean>): Promise<void> {
  await withClient(url, async (client) => {
    while (!(await look(client))) await delay(20);
  });
}

const programs = (client: Client) =>
  client
    .query(`SELECT FROM pg_stat_activity WHERE application_name LIKE 'safemigrate % dump'`)
    .then(({ rowCount }) => rowCount ?? 0);

describe.skipIf(skip)('a run that is killed while it dumps and restores', () => {
  beforeAll(() => useOwnServers(15));

  test('takes its programs with it, and leaves what clean drops', async () => {
    const database = await temporaryDatabase(15, {
      sql: `CREATE TABLE big AS SELECT n, repeat(md5(n::text), 20) AS body FROM generate_series(1, 60000) n;
        CREATE INDEX ON big (body, n)`,
    });
    const env = { DATABASE_URL: database.url, TMPDIR: temporaryFolder() };
    let pid = 0;

    const killed = safemigrate(['--clone', 'dump', '--', 'true'], { env, started: (child) => (pid = child) });
    await until(serverUrl(15), async (client) => (await programs(client)) > 0);
    process.kill(pid, 'SIGKILL');
    expect((await killed).signal).toBe('SIGKILL');
    await until(serverUrl(15), async (client) => (await programs(client)) === 0);
    while ((await recordedFolders()).length > 0) await delay(20);
    const { stdout, exitCode } = await safemigrate(['clean'], { env });
    expect(stdout).toMatch(new RegExp(`^dropped ${database.name}_rehearsal_\\w+\\n$`));
    expect(exitCode).toBe(0);
  });
});

test('a clone that was made elsewhere is removed by clean after the run was killed, with no password in any file', async () => {
  const target = await temporaryDatabase(18);
  const elsewhere = await temporaryDatabase(17);
  const folder = temporaryFolder();
  const told = path.join(folder, 'told');
  const env = { DATABASE_URL: target.url, XDG_STATE_HOME: path.join(folder, 'state') };
  const url = path.join(folder, 'url');
  const args = [
    ...['--clone', 'external', '--clone-create', `cat ${url}`],
    ...['--clone-destroy', `echo "$SAFEMIGRATE_RUN $SAFEMIGRATE_CLONE_URL" >> ${told}`],
  ];
  writeFileSync(url, elsewhere.url);
  let pid = 0;
  const kill = async () => {
    process.kill(pid, 'SIGKILL');
    return '';
  };
  const killed = await safemigrate([...args, '--', 'sh', '-c', 'echo READY; sleep 1'], {
    env,
    started: (child: number) => (pid = child),
    typed: [[/READY/, kill]],
  });
  expect(killed.signal).toBe('SIGKILL');
  expect(existsSync(told)).toBe(false);
  const listed = await safemigrate(['list'], { env });
  expect(listed.stdout).toMatch(
    new RegExp(`:\\*\\*\\*@.*${elsewhere.name} +clone left by a dead run, of ${target.name}`),
  );
  const { stdout } = await safemigrate(['clean'], { env });
  expect(stdout).toContain(`removed external clone of ${target.name}`);
  expect(readFileSync(told, 'utf8')).toContain(changedUrl(elsewhere.url, { password: '***' }));
  expect((await safemigrate(['clean'], { env })).stdout).not.toContain('external');
});
