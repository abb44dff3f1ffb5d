import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { rehearse } from '../../src/index.ts';
import type { ServerVersion } from '../../src/local-server/binaries.ts';
import type { Report } from '../../src/model/report.ts';
import { isScripted } from '../../src/propose/scripted-hazards.ts';
import { plainEnvironment } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { temporaryDatabase } from '../helpers/database.ts';
import { fixturesFor, type HazardFixture, type Kind } from '../helpers/hazard-fixtures.ts';
import { psqlCommand } from '../helpers/rehearse.ts';
import { OLDEST_AND_NEWEST, serverUrl, useOwnServers } from '../helpers/servers.ts';
import { inThisShare } from '../helpers/share.ts';

/**
 * All bad examples whose hazard a script can take away are the sessions of one command, each in a schema of its own, and get one
 * script. It is rehearsed by psql like any command.
 */
const COMMAND = fileURLToPath(new URL('../helpers/commands/run-sql-files.mjs', import.meta.url));

/** What there is no script for, with the reason that is told. */
const LEFT: Readonly<Record<string, RegExp>> = { TABLESPACE_REWRITES: /as a copy/ };

const folder = mkdtempSync(path.join(tmpdir(), 'safemigrate-propose-'));
afterAll(() => rmSync(folder, { recursive: true }));

describe.each(inThisShare(OLDEST_AND_NEWEST))('on PostgreSQL %i', (version) => {
  const fixtures = fixturesFor(version).filter(({ code }) => isScripted(code, { version: '18' }));
  const script = path.join(folder, `${version}.sql`);
  let bad: Report;
  let good: Report;
  let safer: Report;

  beforeAll(async () => {
    await useOwnServers(version);
    await withClient(serverUrl(version), async (client) => {
      await client.query('SET allow_in_place_tablespaces = on');
      await client.query("CREATE TABLESPACE elsewhere LOCATION ''");
    });
    const url = await prepared(version, fixtures);
    bad = await rehearseAll(url, fixtures, 'bad', script);
    safer = await rehearse({
      command: psqlCommand('-f', script),
      env: { ...plainEnvironment(), DATABASE_URL: url },
      clone: { method: 'template' },
    });
    good = await rehearseAll(url, fixtures, 'good', path.join(folder, `${version}-good.sql`));
  }, 240_000);

  test('the script for the bad examples is proved, and psql runs it with the same result', () => {
    expect(bad.proposal?.reasons).toEqual([]);
    expect(bad.proposal).toMatchObject({ outcome: 'proved', file: script, tablesSkipped: 0 });
    expect(existsSync(script)).toBe(true);
    expect(safer.command.exitCode).toBe(0);
    expect(safer.schema?.after).toBe(bad.schema?.after);
    expect(bad.cleanup.failed).toEqual([]);
  });

  test.each(fixtures)('$name is taken away', ({ name, code, schema }) => {
    const told = (list: NonNullable<Report['proposal']>['changes'] = []) =>
      list.filter((each) => each.codes.includes(code) && schemaOf(bad, each.statement) === schema);
    const reason = LEFT[name];
    if (reason)
      expect(
        told(bad.proposal?.left)
          .map(({ words }) => words)
          .join(),
      ).toMatch(reason);
    else expect(told(bad.proposal?.changes)).toHaveLength(1);
    const kept = safer.hazards.filter(
      (each) => each.code === code && each.relation?.startsWith(`${schema}.`),
    );
    expect(kept.length > 0, readFileSync(script, 'utf8')).toBe(reason !== undefined);
  });

  test.each(fixtures)('$name is not proposed for the good example', ({ code, schema }) => {
    const changes = good.proposal?.changes ?? [];
    const own = changes.filter(({ statement }) => schemaOf(good, statement) === schema);
    expect(own.flatMap(({ codes }) => codes)).not.toContain(code);
  });
});

async function prepared(version: ServerVersion, fixtures: readonly HazardFixture[]): Promise<string> {
  const { url } = await temporaryDatabase(version);
  await withClient(url, async (client) => {
    for (const { schema, setup } of fixtures)
      await client.query(`CREATE SCHEMA ${schema}; SET search_path = ${schema}; ${setup}`);
  });
  return url;
}

function rehearseAll(
  url: string,
  fixtures: readonly HazardFixture[],
  kind: Kind,
  script: string,
): Promise<Report> {
  const files = fixtures.map(({ schema, files: own }) => ({ schema, file: own[kind] }));
  return rehearse({
    command: [process.execPath, COMMAND, JSON.stringify(files)],
    env: { ...plainEnvironment(), DATABASE_URL: url },
    clone: { method: 'template' },
    propose: script,
  });
}

/** Each example's session begins with its schema. */
function schemaOf({ statements }: Report, index: number | null): string | undefined {
  const session = statements.find((each) => each.index === index)?.session;
  const [first] = statements.filter((each) => each.session === session);
  return /^SET search_path = (\w+)/.exec(first?.sql ?? '')?.[1];
}
