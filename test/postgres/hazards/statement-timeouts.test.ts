import { beforeAll, describe, expect, test } from 'vitest';
import type { ServerVersion } from '../../../src/local-server/binaries.ts';
import { sqlCommand } from '../../helpers/cli.ts';
import { temporaryDatabase, withClient } from '../../helpers/database.ts';
import { rehearse } from '../../helpers/rehearse.ts';
import { useOwnServers } from '../../helpers/servers.ts';

const version: ServerVersion = 18;

describe('the statement_timeout', () => {
  beforeAll(() => useOwnServers(version));

  async function told(settings: (database: string) => string[], env = {}) {
    const target = await temporaryDatabase(version);
    await withClient(target.url, async (client) => {
      for (const setting of settings(target.name)) await client.query(setting);
    });
    const { report } = await rehearse(target.url, sqlCommand('SELECT pg_sleep(1.6)'), {
      env,
    });
    await target.drop();
    expect(report.command.exitCode).toBe(0);
    return report.hazards
      .filter(({ code }) => code === 'STATEMENT_TIMEOUT_TOO_SHORT')
      .map(({ message, statement }) => `${statement} ${message}`);
  }
  const near = [expect.stringMatching(/^1 the statement takes 1\.\d s, and statement_timeout is 3\.0 s$/)];

  test('of the database holds on the clone too', async () => {
    expect(await told((name) => [`ALTER DATABASE ${name} SET statement_timeout = '3s'`])).toEqual(near);
  });

  test('of the role in the database goes before that of the database', async () => {
    const settings = (name: string) => [
      `ALTER DATABASE ${name} SET statement_timeout = '3s'`,
      `ALTER ROLE CURRENT_USER IN DATABASE ${name} SET statement_timeout = '1min'`,
    ];
    expect(await told(settings)).toEqual([]);
  });

  test('of the connection counts', async () => {
    expect(await told(() => [], { PGOPTIONS: '-c statement_timeout=3s' })).toEqual(near);
  });
});
