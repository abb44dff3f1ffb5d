import { describe, expect, onTestFinished, test } from 'vitest';
import type { Server } from '../../../src/local-server/embedded.ts';
import { withClient } from '../../helpers/client.ts';
import { ownServer } from '../../helpers/own-server.ts';
import { serverUrl, VERSIONS } from '../../helpers/servers.ts';

/** Our own means of starting many servers: everything that tells servers apart rests on it. */
describe.each(VERSIONS)('a server of PostgreSQL %i for one test file', (version) => {
  test('is another one than all others of its version, before and after a crash', async () => {
    const [one, other] = await Promise.all([serverOfOurs(), serverOfOurs()]);
    const before = await Promise.all([serverUrl(version), one.url, other.url].map(identityOf));
    expect(new Set(before).size).toBe(3);
    await one.restart('immediate');
    expect(await identityOf(one.url)).toBe(before[1]);
  });

  async function serverOfOurs(): Promise<Server> {
    const server = await ownServer(version);
    onTestFinished(() => server.stop());
    return server;
  }
});

async function identityOf(url: string): Promise<string | undefined> {
  return withClient(url, async (client) => {
    await client.query('CREATE TEMPORARY TABLE written AS SELECT 1');
    const { rows } = await client.query<{ system_identifier: string }>('SELECT * FROM pg_control_system()');
    return rows[0]?.system_identifier;
  });
}
