import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { rehearse } from '../../../src/index.ts';
import { plainEnvironment } from '../../helpers/cli.ts';
import { withClient } from '../../helpers/client.ts';
import { temporaryDatabase } from '../../helpers/database.ts';

const COMMAND = fileURLToPath(new URL('../../helpers/commands/run-sql-files.mjs', import.meta.url));
const SETUP = `CREATE TABLE "Order items" (id int PRIMARY KEY, secret text);
  INSERT INTO "Order items" SELECT n, 'x' FROM generate_series(1, 200) n; ANALYZE;
  ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO pg_monitor`;

test('the copy of rows that are deleted is not shown to roles that default privileges let read new tables', async () => {
  const database = await temporaryDatabase(18, { sql: SETUP });
  const folder = mkdtempSync(path.join(tmpdir(), 'safemigrate-copies-'));
  const file = path.join(folder, 'delete.sql');
  writeFileSync(file, 'DELETE FROM "Order items"');
  const { hazards } = await rehearse({
    command: [process.execPath, COMMAND, JSON.stringify([{ schema: 'public', file }])],
    env: { ...plainEnvironment(), DATABASE_URL: database.url },
    folder,
    clone: { method: 'template' },
    checks: { queries: 'off' },
  });
  rmSync(folder, { recursive: true });
  const [, ...sql] = hazards.find(({ code }) => code === 'ROWS_DELETED')?.advice.split('\n') ?? [];
  await withClient(database.url, async (client) => {
    const count = async () =>
      (await client.query('SELECT count(*)::int AS n FROM "Order items_deleted"')).rows;
    await client.query(`BEGIN; ${sql.join('\n').replace('WHERE …', '')} COMMIT`);
    expect(await count()).toEqual([{ n: 200 }]);
    await client.query('SET ROLE pg_monitor');
    expect(await count()).toEqual([{ n: 0 }]);
  });
});
