import { access, stat } from 'node:fs/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import { embeddedBinaries } from '../../../src/local-server/binaries.ts';
import { type Server, startServer } from '../../../src/local-server/embedded.ts';
import { withClient } from '../../helpers/client.ts';
import { majorOf, serverUrl, VERSIONS } from '../../helpers/servers.ts';

async function server(options?: Parameters<typeof startServer>[0]): Promise<Server> {
  const started = await startServer(options);
  onTestFinished(() => started.stop());
  return started;
}

function valueFrom(url: string, sql: string): Promise<unknown> {
  return withClient(url, async (client) => Object.values((await client.query(sql)).rows[0])[0]);
}

describe('a private server', () => {
  test('answers its superuser, with the settings that were asked for', async () => {
    const { url } = await server({ settings: { work_mem: '7MB', cluster_name: "it's \\ here" } });
    expect(await valueFrom(url, 'SELECT rolsuper FROM pg_roles WHERE rolname = current_user')).toBe(true);
    expect(await valueFrom(url, 'SHOW work_mem')).toBe('7MB');
    expect(await valueFrom(url, 'SHOW cluster_name')).toBe("it's \\ here");
  });

  test('stores UTF8 and knows letters beyond ASCII', async () => {
    const { url } = await server();
    expect(await valueFrom(url, "SELECT upper('größe')")).toBe(
      process.platform === 'linux' ? 'GRÖßE' : 'GRößE',
    );
  });

  test('lets nobody in without the password', async () => {
    const { url } = await server();
    const wrong = new URL(url);
    wrong.password = 'guess';
    await expect(valueFrom(wrong.href, 'SELECT 1')).rejects.toMatchObject({ code: '28P01' });
  });

  test('shows its folder and its socket to nobody else', async () => {
    const { folder, socketFolder } = await server();
    expect((await stat(folder)).mode & 0o777).toBe(0o700);
    expect((await stat(socketFolder)).mode & 0o777).toBe(0o700);
  });

  test('is gone with its folder once stopped, and stopping again does nothing', async () => {
    const started = await server();
    await started.stop();
    await started.stop();
    await expect(access(started.folder)).rejects.toThrow('ENOENT');
    await expect(valueFrom(started.url, 'SELECT 1')).rejects.toThrow('ECONNREFUSED');
  });

  test.each(['fast', 'immediate'] as const)(
    'keeps its port and what was committed over a restart (%s)',
    async (mode) => {
      const started = await server();
      await withClient(started.url, (client) => client.query('CREATE TABLE kept AS SELECT 1 AS one'));
      const before = await valueFrom(started.url, 'SELECT pg_postmaster_start_time()::text');
      await started.restart(mode);
      expect(await valueFrom(started.url, 'SELECT count(*)::int FROM kept')).toBe(1);
      expect(await valueFrom(started.url, 'SELECT pg_postmaster_start_time()::text')).not.toBe(before);
    },
  );

  test('says with its log why it does not start, and leaves nothing', async () => {
    const starting = startServer({ settings: { shared_buffers: 'a lot' } });
    await expect(starting).rejects.toMatchObject({
      code: 'SERVER',
      message: expect.stringContaining('invalid value for parameter "shared_buffers"'),
    });
  });

  test('of a version that is not installed says where it was looked for', async () => {
    await expect(embeddedBinaries(14, { PATH: '/nowhere', PGBIN: '/nowhere' })).rejects.toMatchObject({
      code: 'SERVER',
      hint: expect.stringContaining('PGBIN'),
    });
  });
});

test.each(VERSIONS)('the shared server of %i is of that version', async (version) => {
  expect(
    await valueFrom(serverUrl(version), "SELECT current_setting('server_version_num')::int / 10000"),
  ).toBe(majorOf(version));
});
