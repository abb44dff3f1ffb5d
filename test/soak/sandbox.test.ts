import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { recordFigures } from '../bench/figures.ts';
import { temporaryFolder } from '../helpers/cli.ts';
import { temporaryDatabase, withClient } from '../helpers/database.ts';
import { rehearse, scriptCommand } from '../helpers/rehearse.ts';
import { useOwnServers } from '../helpers/servers.ts';

beforeAll(() => useOwnServers(18));

const RUNS = Number(process.env.SANDBOX_RUNS ?? 100);

/** Works on the clone, then writes at the target's own address, by a connection that ends at once. */
const INTRUDE = `
  const client = await connect();
  await client.query('CREATE TABLE made (id int)');
  await client.end();
  const url = (await import('node:fs')).readFileSync(args[0], 'utf8');
  const own = await connect(undefined, url);
  await own.query('INSERT INTO jobs VALUES (1)');
  await own.end();`;

test('no connection of a sandboxed command reaches the target, however short it is', {
  timeout: RUNS * 20_000,
}, async () => {
  const target = await temporaryDatabase(18, { sql: 'CREATE TABLE jobs (id int)' });
  const hardCoded = path.join(temporaryFolder(), 'url');
  writeFileSync(hardCoded, target.url);
  for (let run = 0; run < RUNS; run++) {
    const { report, exitCode, stderr } = await rehearse(target.url, scriptCommand(INTRUDE, hardCoded), {
      args: ['--sandbox', 'required'],
    });
    expect(exitCode, stderr).toBe(0);
    expect(report.statements.map(({ sql }) => sql)).toContain('INSERT INTO jobs VALUES (1)');
    expect(report.target.unchanged).toBe(true);
  }
  const rows = await withClient(target.url, (client) => client.query('SELECT FROM jobs'));
  expect(rows.rowCount).toBe(0);
  recordFigures('connections that a sandboxed command tries to make to its target, PostgreSQL 18', [
    { tried: RUNS, 'on the clone': RUNS, 'that reached it': rows.rowCount ?? 0 },
  ]);
  await target.drop();
});
