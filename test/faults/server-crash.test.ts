import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { type CliResult, safemigrate, sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { changedUrl } from '../helpers/cloning.ts';
import { databases, until } from '../helpers/cutting.ts';
import { type LoopFileSystem, loopFileSystem, loopFileSystemObstacle } from '../helpers/file-system.ts';
import { ownServer } from '../helpers/own-server.ts';
import { scriptCommand } from '../helpers/rehearse.ts';
import { startRelay } from '../helpers/relay.ts';
import { skipReason } from '../helpers/requirements.ts';

const MIGRATION = sqlCommand('CREATE TABLE made (id int)');

describe.skipIf(skipReason(await loopFileSystemObstacle('xfs')))(
  'a server that crashes and comes back',
  () => {
    let disk: LoopFileSystem;
    let server: Server;
    let url: string;

    beforeAll(async () => {
      disk = await loopFileSystem('xfs', 900 * 2 ** 20);
      server = await ownServer(18, {
        parent: disk.folder,
        settings: { max_wal_size: '64MB', min_wal_size: '32MB' },
      });
      url = changedUrl(server.url, { database: 'shop' });
      await withClient(server.url, (client) => client.query('CREATE DATABASE shop'));
    }, 60_000);
    afterAll(async () => {
      await server?.stop();
      await disk?.destroy();
    });

    async function crashedAt(
      clone: string,
      when: (text: string, afterCommand: number) => boolean,
    ): Promise<CliResult> {
      let restarted: Promise<void> | undefined;
      let after = -1;
      const relay = await startRelay(url, (_, text) => {
        if (text.startsWith('CREATE TABLE made')) after = 0;
        else if (after >= 0) after += 1;
        if (!restarted && when(text, after)) restarted = server.restart('immediate');
        return 'forward';
      });
      try {
        const through = new URL(url);
        through.port = String(relay.port);
        through.searchParams.set('sslmode', 'disable');
        const run = await safemigrate(['--clone', clone, '--', ...MIGRATION], {
          env: { DATABASE_URL: through.href },
        });
        expect(restarted, relay.requests.join('\n')).toBeDefined();
        return run;
      } finally {
        await restarted;
        await relay.close();
      }
    }

    test.each([
      ['template', 'while it is inspected', (text: string) => text.includes('pg_database_size')],
      ['template', 'while the clone is made', (text: string) => text.startsWith('CREATE DATABASE')],
      ['template', 'right after the command', (_: string, after: number) => after === 3],
      ['template', 'at the last reading', (_: string, after: number) => after === 40],
      ['cluster', 'while it is inspected', (text: string) => text.includes('pg_database_size')],
      ['cluster', 'while its files are copied', (text: string) => text.includes('pg_backup_start')],
      ['cluster', 'when they are copied', (text: string) => text.includes('pg_backup_stop')],
    ])('%s, %s', async (clone, _when, when) => {
      const before = await databases(server);
      const { exitCode, stderr } = await crashedAt(clone, when);
      expect(stderr).not.toMatch(/Internal error|^ +at /m);
      expect(exitCode, stderr).toBe(3);
      expect(stderr).toMatch(/The target was not touched|The target is as it was before/);
      const cleaned = await safemigrate(['clean'], { env: { DATABASE_URL: url } });
      expect(cleaned.exitCode).toBe(0);
      expect(await databases(server)).toEqual(before);
    });

    test('template, while the clone is dropped: the report says what is left, and clean drops it', async () => {
      const { exitCode, stderr } = await crashedAt('template', (text) => text.startsWith('DROP DATABASE'));
      expect(exitCode, stderr).toBe(0);
      const [, left] =
        /could not be released.*\n[\s\S]*NOT CLEANED UP {2}1 item left behind\n +✗ clone (\S+):/.exec(
          stderr,
        ) ?? [];
      expect(left).toMatch(/^shop_rehearsal_/);
      const cleaned = await safemigrate(['clean'], { env: { DATABASE_URL: url } });
      expect(cleaned).toMatchObject({
        exitCode: 0,
        stdout: expect.stringMatching(new RegExp(`^dropped ${left}$`, 'm')),
      });
    });

    /** A backend that dies without a word takes all sessions of its server along. */
    async function killBackend(): Promise<void> {
      const ended = withClient(server.url, async (client) => {
        client.on('error', () => {});
        const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
        process.kill(rows[0]?.pid ?? Number.NaN, 'SIGKILL');
        await client.query('SELECT pg_sleep(60)');
      });
      await expect(ended).rejects.toThrow();
      await until('it has recovered', () =>
        withClient(server.url, (client) => client.query('SELECT 1')).then(
          () => true,
          () => false,
        ),
      );
    }

    /** It migrates, does what the test does meanwhile, and ends well if its own connection lives. */
    const waiting = scriptCommand(`
    const client = await connect();
    client.on('error', () => {});
    await client.query('CREATE TABLE made (id int)');
    console.error('it waits');
    await new Promise((resolve) => process.stdin.once('data', resolve));
    process.stdin.unref();
    await client.query('SELECT 1');
    await client.end();`);

    test.each(['template', 'cluster'])(
      'a backend that is killed while the command runs on a clone by %s',
      async (clone) => {
        const before = await databases(server);
        const { exitCode, stderr } = await safemigrate(['--clone', clone, '--', ...waiting], {
          env: { DATABASE_URL: url },
          typed: [[/it waits/, () => killBackend().then(() => '\n')]],
        });
        expect(exitCode, stderr).toBe(3);
        expect(stderr).toMatch(/was lost.*The target is as it was before/s);
        await safemigrate(['clean'], { env: { DATABASE_URL: url } });
        expect(await databases(server)).toEqual(before);
      },
    );

    test('a crash does not hide that the command had changed the target', async () => {
      // Out of a file, which nobody rewrites.
      const file = path.join(temporaryFolder(), 'url');
      writeFileSync(file, url);
      const past = scriptCommand(
        `
      const client = await connect('shop', process.getBuiltinModule('fs').readFileSync(args[0], 'utf8'));
      client.on('error', () => {});
      await client.query('CREATE TABLE past (id int)');
      console.error('it waits');
      await new Promise((resolve) => process.stdin.once('data', resolve));
      process.stdin.unref();`,
        file,
      );
      const { exitCode, stderr } = await safemigrate(
        ['--clone', 'cluster', '--sandbox', 'off', '--', ...past],
        {
          env: { DATABASE_URL: url },
          typed: [[/it waits/, () => killBackend().then(() => '\n')]],
        },
      );
      expect(exitCode, stderr).toBe(5);
      expect(stderr).not.toContain('as it was before');
    });
  },
);
