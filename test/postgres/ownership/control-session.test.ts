import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { advisoryLockKey } from '../../../src/ownership/run-id.ts';
import { withCloning } from '../../helpers/cloning.ts';
import { temporaryDatabase, withClient } from '../../helpers/database.ts';
import { NEWEST, serverUrl } from '../../helpers/servers.ts';

describe.each(NEWEST)('PostgreSQL %d', (version) => {
  test('a run holds its lock outside the target, for as long as its session lives', async () => {
    const database = await temporaryDatabase(version);
    await withClient(serverUrl(version), async (client) => {
      const held = async (key: string) =>
        (
          await client.query<{ held: boolean }>(
            'SELECT NOT pg_try_advisory_lock_shared($1::bigint) AS held',
            [key],
          )
        ).rows;
      const key = await withCloning(database.url, {}, async ({ context }) => {
        const own = advisoryLockKey(context.run);
        expect(context.control.database).toBe('postgres');
        expect(await held(own)).toEqual([{ held: true }]);
        return own;
      });
      expect(await held(key)).toEqual([{ held: false }]);
    });
  });

  test('the statement of a run that was killed ends with it, so that nothing waits behind it', async () => {
    const database = await temporaryDatabase(version);
    await withClient(serverUrl(version), async (client) => {
      const lives = async (pid: number) =>
        (await client.query('SELECT 1 FROM pg_stat_activity WHERE pid = $1', [pid])).rows.length > 0;
      await withCloning(database.url, {}, async ({ context: { control } }) => {
        const working = control.query('SELECT pg_sleep(25)').catch((error: { code: string }) => error.code);
        await delay(0);
        control.client.connection.stream.destroy();
        expect(await working).toBe('LOST');
        const deadline = performance.now() + 10_000;
        while ((await lives(control.pid)) && performance.now() < deadline) await delay(20);
        expect(await lives(control.pid)).toBe(false);
      });
    });
  });
});
