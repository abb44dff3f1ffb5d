import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readServerIdentity } from '../../../src/database/server-identity.ts';
import type { ServerVersion } from '../../../src/local-server/binaries.ts';
import type { Server } from '../../../src/local-server/embedded.ts';
import { openSession } from '../../../src/postgres/connection/connect.ts';
import { parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../../src/postgres/connection/environment.ts';
import { withClient } from '../../helpers/client.ts';
import { ownServer } from '../../helpers/own-server.ts';
import { OLDEST_AND_NEWEST } from '../../helpers/servers.ts';

describe.each(OLDEST_AND_NEWEST)('PostgreSQL %d, which server it is', (version: ServerVersion) => {
  let server: Server;
  beforeAll(async () => {
    server = await ownServer(version);
  });
  afterAll(() => server.stop());

  async function identity(user: { user: string; password: string } = server) {
    const settings = { ...parseSettings(server.url, readEnvironment({}, '/')), ...user };
    const session = await openSession(settings, { purpose: 'test' });
    return readServerIdentity(session).finally(() => session.close());
  }

  test('stays so over a restart, which shows, and is partly hidden from roles that may not read it', async () => {
    const before = await identity();
    expect(before).toMatchObject({ systemIdentifier: expect.stringMatching(/^\d{19}$/), timeline: 1 });
    await server.restart('immediate');
    const after = await identity();
    expect({ ...after, startedAt: before.startedAt }).toEqual(before);
    expect(Number(after.startedAt)).toBeGreaterThan(Number(before.startedAt));
    await withClient(server.url, (client) =>
      client.query(
        "CREATE ROLE blind LOGIN PASSWORD 'blind'; REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC",
      ),
    );
    const hidden = await identity({ user: 'blind', password: 'blind' });
    expect(hidden).toEqual({ ...after, systemIdentifier: null });
  });
});
