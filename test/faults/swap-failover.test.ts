import { existsSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { safemigrate, temporaryFolder } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { until } from '../helpers/cutting.ts';
import { temporaryDatabase } from '../helpers/database.ts';
import { caughtUp, primaryWith, promote, relayTo, streamingStandbyOf, through } from '../helpers/failover.ts';
import { psqlCommand } from '../helpers/rehearse.ts';
import { serverUrl } from '../helpers/servers.ts';
import { databasesBeside, inDatabase } from '../helpers/swapping.ts';

const COMMENT = "the users' own";
const MIGRATION = 'CREATE TABLE added (id int)';

interface Door {
  readonly open: boolean;
  readonly comment: string | null;
}

async function doorOf({ url }: { url: string }, name: string): Promise<Door | undefined> {
  const { rows } = await withClient(url, (client) =>
    client.query<Door>(
      "SELECT datallowconn AS open, shobj_description(oid, 'pg_database') AS comment FROM pg_database WHERE datname = $1",
      [name],
    ),
  );
  return rows[0];
}

/** As the test left it, under its own name and with its own comment. */
const OPEN = { open: true, comment: COMMENT };

/** A swap whose command has done its work on the clone of the closed target, and waits. It is psql, which takes URLs of several hosts. */
async function swapUntilMigrated(url: string) {
  const folder = temporaryFolder();
  const [rehearsed, migrated, go] = ['rehearsed', 'migrated', 'go'].map((name) => path.join(folder, name));
  const wait = `touch '${migrated}'; until [ -e '${go}' ] || ! kill -0 $PPID; do sleep 0.02; done`;
  const script = `"$@" || exit; if [ -e '${rehearsed}' ]; then ${wait}; fi; touch '${rehearsed}'`;
  let pid = 0;
  const words = ['--url', url, 'swap', '--yes', '--permit', 'standbys', '--format', 'json'];
  const result = safemigrate([...words, '--', 'sh', '-c', script, 'sh', ...psqlCommand('-c', MIGRATION)], {
    started: (started) => {
      pid = started;
    },
  });
  await until('the clone is migrated', async () => existsSync(migrated ?? ''));
  return { result, kill: () => process.kill(pid, 'SIGKILL'), goOn: () => writeFileSync(go ?? '', '') };
}

const swapOf = (stdout: string): { outcome: string; reasons: string[] } => JSON.parse(stdout).swap;

const settings = { timeout: 60_000 };

test(
  'a target whose address leads to a promoted standby is renamed on neither server, and is open on the new one',
  settings,
  async () => {
    const primary = await primaryWith('app');
    const standby = await streamingStandbyOf(primary);
    const relay = await relayTo(primary);
    const url = through(relay, inDatabase(primary.url, 'app'));
    const { result, goOn } = await swapUntilMigrated(url);
    await caughtUp(primary, standby);
    promote(standby);
    relay.leadTo(standby.url);
    goOn();
    const { exitCode, stdout, stderr } = await result;
    expect(exitCode, stderr).toBe(4);
    expect(swapOf(stdout)).toMatchObject({
      outcome: 'undone',
      reasons: [
        expect.stringMatching(/^Nothing was renamed: another server took over.*timeline 1 became 2/),
        expect.stringContaining('app is open on the new primary'),
      ],
    });
    expect(await doorOf(standby, 'app')).toEqual(OPEN);
    expect(await doorOf(primary, 'app')).toMatchObject({ open: false });
    expect(await databasesBeside(standby.url)).toEqual(['app']);
    // As it says, should the former one go on after all.
    await until('clean opens it', async () => {
      const { stdout } = await safemigrate(['clean', '--url', inDatabase(primary.url, 'app')]);
      return /^opened {2}app/m.test(stdout);
    });
    expect(await databasesBeside(primary.url)).toEqual(['app']);
    expect(await doorOf(primary, 'app')).toEqual(OPEN);
  },
);

test('a target whose server is lost is opened on the one that takes over', settings, async () => {
  const primary = await primaryWith('app');
  const standby = await streamingStandbyOf(primary);
  const hosts = `127.0.0.1:${primary.port},127.0.0.1:${standby.port}`;
  const url = `postgresql://postgres@${hosts}/app`;
  const { result } = await swapUntilMigrated(url);
  await caughtUp(primary, standby);
  await primary.stop();
  expect(await doorOf(standby, 'app')).toMatchObject({ open: false });
  promote(standby);
  const { exitCode, stdout, stderr } = await result;
  expect(exitCode, stderr).toBe(4);
  expect(swapOf(stdout)).toMatchObject({
    outcome: 'undone',
    reasons: [expect.stringContaining('lost'), expect.stringContaining(`127.0.0.1:${standby.port}`)],
  });
  expect(await doorOf(standby, 'app')).toEqual(OPEN);
  const cleaned = await safemigrate(['clean', '--url', url]);
  expect(cleaned).toMatchObject({ exitCode: 0, stderr: '' });
  expect(await databasesBeside(standby.url)).toEqual(['app']);
});

test(
  'a target whose server and whose run are lost is opened by the guard on the one that takes over',
  settings,
  async () => {
    const primary = await primaryWith('app');
    const standby = await streamingStandbyOf(primary);
    const hosts = `127.0.0.1:${primary.port},127.0.0.1:${standby.port}`;
    const { result, kill } = await swapUntilMigrated(`postgresql://postgres@${hosts}/app`);
    await caughtUp(primary, standby);
    await primary.stop();
    kill();
    expect(await result).toMatchObject({ signal: 'SIGKILL' });
    expect(await doorOf(standby, 'app')).toMatchObject({ open: false });
    promote(standby);
    await until('the guard opens it', async () => (await doorOf(standby, 'app'))?.open ?? false);
    expect(await doorOf(standby, 'app')).toEqual(OPEN);
  },
);

test(
  'a server of another system at the address is left alone, and the guard waits for the right one',
  settings,
  async () => {
    const other = await temporaryDatabase(18);
    const primary = await primaryWith(other.name);
    const relay = await relayTo(primary);
    const url = through(relay, other.url);
    const { result, goOn } = await swapUntilMigrated(url);
    // Closed by somebody else: whoever opens it here shows.
    await withClient(serverUrl(18), (client) =>
      client.query(`ALTER DATABASE ${other.name} ALLOW_CONNECTIONS false`),
    );
    relay.leadTo(serverUrl(18));
    goOn();
    const { exitCode, stderr } = await result;
    expect(exitCode, stderr).toBe(5);
    expect(stderr).toMatch(/could not be reopened: another server answers now/);
    expect(await doorOf(primary, other.name)).toMatchObject({ open: false });
    relay.leadTo(primary.url);
    await until('the guard opens it', async () => (await doorOf(primary, other.name))?.open ?? false);
    expect(await doorOf(primary, other.name)).toEqual(OPEN);
    expect(await doorOf({ url: serverUrl(18) }, other.name)).toEqual({ open: false, comment: null });
  },
);
