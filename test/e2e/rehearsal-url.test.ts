import { beforeAll, expect, test } from 'vitest';
import { safemigrate, sqlCommand } from '../helpers/cli.ts';
import { temporaryDatabase, withClient } from '../helpers/database.ts';
import { rehearse } from '../helpers/rehearse.ts';
import { useOwnServers } from '../helpers/servers.ts';

beforeAll(() => useOwnServers(17, 18));

const SQL = 'CREATE TABLE t AS SELECT generate_series(1, 10) AS n';

test('a copy of the target on another server is what is cloned there, and what is kept is named', async () => {
  const target = await temporaryDatabase(18, { sql: SQL });
  const copy = await temporaryDatabase(17, { sql: SQL });
  const { report, stderr } = await rehearse(target.url, sqlCommand('ALTER TABLE t ADD COLUMN more int'), {
    args: ['--clone-to', copy.url, '--keep'],
  });
  expect(report).toMatchObject({
    target: { database: target.name, changes: [] },
    clone: { method: 'template', kept: true, database: expect.stringContaining(`${copy.name}_rehearsal_`) },
    command: { exitCode: 0 },
  });
  expect(report.caveats.map(({ reason }) => reason).join()).toContain('on another server');
  expect(stderr).toContain(`the database ${report.clone.database} on the server of --clone-to`);
  const columns = (url: string) =>
    withClient(url, async (client) => (await client.query('SELECT * FROM t LIMIT 0')).fields.length);
  expect([await columns(target.url), await columns(copy.url)]).toEqual([1, 1]);
  const { stdout } = await safemigrate(['clean', '--kept', '--url', copy.url]);
  expect(stdout).toContain(`dropped ${report.clone.database}`);
});
