import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { comparer } from '../../../src/database/same-target.ts';
import type { ConnectionSettings } from '../../../src/postgres/connection/connection-settings.ts';
import { parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../../src/postgres/connection/environment.ts';
import { type TemporaryDatabase, temporaryDatabase } from '../../helpers/database.ts';
import { serverUrl } from '../../helpers/servers.ts';

describe('whether a connection is the target', () => {
  let database: TemporaryDatabase;
  let target: ConnectionSettings;
  const settings = (url: string) => parseSettings(url, readEnvironment({}, '.'));

  beforeAll(async () => {
    database = await temporaryDatabase(17);
    target = settings(database.url);
  });
  afterAll(() => database.drop());

  // The address as one number is another name of the same machine, which no comparison of text knows.
  const renamed = (name: string): ConnectionSettings => ({
    ...target,
    hosts: [{ host: '2130706433', port: target.hosts[0]?.port ?? 0 }],
    database: name,
  });

  test.each(['localhost', '127.0.0.1', '::1', 'LOCALHOST', '127.0.0.2', '/tmp'])(
    '%s is this machine',
    async (host) => {
      const compare = comparer(target);
      expect(await compare({ ...target, hosts: [{ host, port: target.hosts[0]?.port ?? 0 }] })).toEqual({
        kind: 'same',
      });
    },
  );

  test('is found out by asking where the text does not say', async () => {
    const compare = comparer(target);
    expect(await compare(renamed(target.database))).toEqual({ kind: 'same' });
    expect(await compare(renamed('postgres'))).toEqual({ kind: 'other-database' });
  });

  test('another server is none of ours', async () => {
    expect(await comparer(target)(settings(serverUrl(18)))).toEqual({ kind: 'other-server' });
  });

  test.each([
    ['a refused login', () => ({ ...renamed('postgres'), password: 'wrong' })],
    ['a dead port', () => ({ ...target, hosts: [{ host: '2130706433', port: 1 }] })],
    ['a database that is not there', () => renamed('not_there')],
  ])('stays undecided after %s, with a reason and without the password', async (_what, make) => {
    const verdict = await comparer(target)(make());
    expect(verdict).toMatchObject({
      kind: 'undecided',
      reason: expect.stringContaining('could not be connected to'),
    });
    expect(JSON.stringify(verdict)).not.toContain(target.password);
  });
});
