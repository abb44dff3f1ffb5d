import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, test } from 'vitest';
import { rehearse } from '../../../src/index.ts';
import type { ServerVersion } from '../../../src/local-server/binaries.ts';
import type { Hazard, Report } from '../../../src/model/report.ts';
import { plainEnvironment } from '../../helpers/cli.ts';
import { withClient } from '../../helpers/client.ts';
import { temporaryDatabase } from '../../helpers/database.ts';
import { fixturesFor, type HazardFixture, type Kind } from '../../helpers/hazard-fixtures.ts';
import { OLDEST_AND_NEWEST, serverUrl, shareOf, useOwnServers } from '../../helpers/servers.ts';

/**
 * All bad examples are the sessions of one command, and all good ones those of another; each is in a schema of its own.
 * So a version needs two rehearsals, from the clone to the report, and not a hundred.
 */
const COMMAND = fileURLToPath(new URL('../../helpers/commands/run-sql-files.mjs', import.meta.url));

/** What the whole command has done, a query does, or several statements may have done. */
const WITHOUT_STATEMENT = [
  'ACCEPTS_LESS',
  'ACCEPTS_MORE',
  'ACCESS_WIDENED',
  'ACTS_ON_SERVER',
  'DATABASE_SETTING_CHANGED',
  'NOTHING_APPLIED',
  'PREPARED_STATEMENT_BREAKS',
  'QUERY_BREAKS',
  'QUERY_SLOWER',
  'READS_DIFFER',
  'REFRESH_NEEDS_KEY',
  'SEQUENCE_BEHIND',
];

/** No rule asks for the version: the newest server is to read as the others do, for which a share of the examples is enough. */
const examplesFor = (version: ServerVersion) =>
  version === 19 ? shareOf(version, fixturesFor(version)) : fixturesFor(version);

describe.each(OLDEST_AND_NEWEST)('on PostgreSQL %i', (version) => {
  const fixtures = examplesFor(version);
  const found: Record<Kind, Map<string, Hazard[]>> = { bad: new Map(), good: new Map() };

  beforeAll(async () => {
    await useOwnServers(version);
    await withClient(serverUrl(version), async (client) => {
      await client.query('SET allow_in_place_tablespaces = on');
      await client.query("CREATE TABLESPACE elsewhere LOCATION ''");
    });
    for (const kind of ['bad', 'good'] as const)
      found[kind] = bySchema(await rehearseAll(version, kind, fixtures), fixtures);
  }, 600_000);

  test.each(fixtures)(
    '$name is found in the bad example, and not in the good one',
    ({ code, name, schema }) => {
      const told = (kind: Kind) => (found[kind].get(schema) ?? []).filter((hazard) => hazard.code === code);
      expect(told('bad'), describeAll()).not.toEqual([]);
      expect(told('good'), describeAll()).toEqual([]);
      const hasStatement = told('bad').some(({ statement }) => statement !== null);
      expect(hasStatement, describeAll()).toBe(!WITHOUT_STATEMENT.includes(name));

      function describeAll(): string {
        return JSON.stringify({ bad: found.bad.get(schema), good: found.good.get(schema) }, null, 1);
      }
    },
  );
});

async function rehearseAll(
  version: ServerVersion,
  kind: Kind,
  fixtures: readonly HazardFixture[],
): Promise<Report> {
  const database = await temporaryDatabase(version);
  await withClient(database.url, async (client) => {
    for (const { schema, setup } of fixtures)
      await client.query(`CREATE SCHEMA ${schema}; SET search_path = ${schema}; ${setup}`);
  });
  const folder = mkdtempSync(path.join(tmpdir(), 'safemigrate-hazards-'));
  const queries = path.join(folder, 'queries.sql');
  writeFileSync(queries, fixtures.map((fixture) => fixture.queries).join('\n'));
  for (const { schema, migrations } of fixtures)
    if (migrations !== undefined) cpSync(migrations, path.join(folder, schema), { recursive: true });
  const files = fixtures.map(({ schema, files }) => ({ schema, file: files[kind] }));
  try {
    return await rehearse({
      command: [process.execPath, COMMAND, JSON.stringify(files)],
      env: { ...plainEnvironment(), DATABASE_URL: database.url },
      folder,
      clone: { method: 'template' },
      checks: { queries },
    });
  } finally {
    rmSync(folder, { recursive: true });
    await database.drop();
  }
}

/** A hazard belongs to the fixture whose session met it, or whose relation it is about; that of a query to its own. */
function bySchema(report: Report, fixtures: readonly HazardFixture[]): Map<string, Hazard[]> {
  const schemas = new Map<number, string>();
  for (const { session, sql } of report.statements) {
    const schema = /^SET search_path = (\w+)/.exec(sql)?.[1];
    if (schema !== undefined) schemas.set(session, schema);
  }
  const found = new Map<string, Hazard[]>(fixtures.map(({ schema }) => [schema, []]));
  for (const hazard of report.hazards) {
    const statement = report.statements.find(({ index }) => index === hazard.statement);
    const schema =
      (statement && schemas.get(statement.session)) ??
      hazard.relation?.split('.')[0] ??
      hazard.code.toLowerCase();
    found.get(schema)?.push(hazard);
  }
  return found;
}
