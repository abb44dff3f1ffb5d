import { chmodSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { PROGRAM, runProgram, temporaryFolder } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { asUser } from '../helpers/other-user.ts';
import { ownServer } from '../helpers/own-server.ts';
import { psqlCommand } from '../helpers/rehearse.ts';
import { skipReason } from '../helpers/requirements.ts';
import { withDatabase } from '../helpers/target-state.ts';

const obstacle =
  process.platform === 'linux' && process.getuid?.() === 0 ? null : 'other users are made by root, on Linux';

describe.skipIf(skipReason(obstacle))('a user', () => {
  let server: Server;
  let url: string;

  beforeAll(async () => {
    server = await ownServer(18);
    url = withDatabase(server.url, 'shop');
    await withClient(server.url, (client) => client.query('CREATE DATABASE shop'));
  });
  afterAll(() => server.stop());

  /** Databases that the server has besides its own and the target. */
  const clones = () =>
    withClient(server.url, async (client) => {
      const { rows } = await client.query<{ name: string }>(
        "SELECT datname AS name FROM pg_database WHERE NOT datistemplate AND datname <> ALL ('{postgres,shop}')",
      );
      return rows.map(({ name }) => name);
    });

  describe.each([
    ['without HOME', 65_534],
    ['without HOME or an entry in /etc/passwd', 54_321],
  ])('%s', (_, id) => {
    const run = (args: readonly string[], env: NodeJS.ProcessEnv = {}) => {
      const folder = temporaryFolder();
      chmodSync(folder, 0o777);
      const bare = [...asUser(id), 'env', '-u', 'HOME', '-u', 'XDG_STATE_HOME', '-u', 'XDG_CACHE_HOME'];
      return runProgram(
        [...bare, ...Object.entries(env).map(([name, value]) => `${name}=${value}`), ...PROGRAM, ...args],
        {
          env: { DATABASE_URL: url, TMPDIR: folder },
          folder,
        },
      );
    };
    const command = ['--', ...psqlCommand('-c', 'CREATE TABLE made (id int)')];

    test('rehearses in a way that needs no record, and is told what keeps one', async () => {
      const { exitCode, stderr } = await run(['--clone', 'auto', ...command]);
      expect(stderr).not.toContain('Internal error');
      expect(exitCode, stderr).toBe(0);
      expect(stderr).toMatch(/The report is not kept for `safemigrate show`: /);
      expect(await clones()).toEqual([]);
    });

    test('is told what to set for another way, and nothing was touched', async () => {
      const { exitCode, stderr } = await run(['--clone', 'dump', ...command]);
      expect(stderr).not.toContain('Internal error');
      expect(exitCode, stderr).toBe(3);
      expect(stderr).toContain('XDG_STATE_HOME');
      expect(stderr).toContain('The target was not touched.');
      expect(await clones()).toEqual([]);
    });

    test('has all of it with XDG_STATE_HOME', async () => {
      const state = temporaryFolder();
      chmodSync(state, 0o777);
      const { exitCode, stderr } = await run(['--clone', 'auto', ...command], { XDG_STATE_HOME: state });
      expect(exitCode, stderr).toBe(0);
      expect(stderr).not.toContain('The report is not kept');
      expect(await readdir(path.join(state, 'safemigrate'))).not.toEqual([]);
    });
  });
});
