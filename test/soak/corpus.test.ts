import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, expect, test } from 'vitest';
import { rehearse } from '../../src/index.ts';
import type { Profile } from '../../src/model/profile-model.ts';
import type { Hazard, Report } from '../../src/model/report.ts';
import { recordFigures } from '../bench/figures.ts';
import { plainEnvironment, safemigrate, temporaryFolder } from '../helpers/cli.ts';
import { CORPUS_SETUP, type CorpusExample, corpusExamples } from '../helpers/corpus.ts';
import { temporaryDatabase, withClient } from '../helpers/database.ts';
import type { Kind } from '../helpers/hazard-fixtures.ts';
import { sampleProfile } from '../helpers/profiles.ts';
import { serverUrl, useOwnServers } from '../helpers/servers.ts';

const COMMAND = fileURLToPath(new URL('../helpers/commands/run-sql-files.mjs', import.meta.url));
/** Judged as tables of two million rows. */
const GROWTH = 1000;
const RECALL = 0.97;
const FALSE_WARNINGS = 0.01;

beforeAll(async () => {
  await useOwnServers(18);
  await withClient(serverUrl(18), async (client) => {
    await client.query('SET allow_in_place_tablespaces = on');
    await client.query("CREATE TABLESPACE elsewhere LOCATION ''");
    await client.query('CREATE ROLE corpus_reader');
  });
});

test('examples of public catalogues are told if they are bad, and no warning is given if they are good', async () => {
  const bad = await told('bad');
  const good = await told('good');
  const missed = bad.filter(
    ({ example, hazards }) => !hazards.some(({ code }) => example.expects.includes(code)),
  );
  const warned = good.filter(({ hazards }) => hazards.some(({ severity }) => severity !== 'notice'));
  const noticed = good.filter(({ hazards }) => hazards.length > 0);
  const words = ({ example, hazards, errors }: Told) =>
    `${example.source}${example.expects.length > 0 ? ` (${example.expects.join(' or ')})` : ''}: ${[...new Set(hazards.map(({ severity, code }) => `${severity} ${code}`))].join(', ') || 'nothing'}${errors.length === 0 ? '' : ` (failed: ${errors.join('; ')})`}`;
  const catalogues = [...new Set([...bad, ...good].map(catalogueOf))].sort();
  recordFigures(
    'examples of public catalogues, judged as tables of 2 million rows, PostgreSQL 18',
    catalogues.map((catalogue) => {
      const of = (list: readonly Told[]) => list.filter((each) => catalogueOf(each) === catalogue).length;
      return {
        catalogue,
        bad: of(bad),
        missed: of(missed),
        good: of(good),
        'falsely warned': of(warned),
        'with a notice': of(noticed),
      };
    }),
    [
      `Found: ${percent(1 - missed.length / bad.length)} of ${bad.length} bad ones; falsely warned: ${percent(warned.length / good.length)} of ${good.length} good ones.`,
      ...missed.map((each) => `missed: ${words(each)}`),
      ...warned.map((each) => `falsely warned: ${words(each)}`),
    ],
  );
  console.log(noticed.map((each) => `notice: ${words(each)}`).join('\n'));
  expect(good.filter(({ errors }) => errors.length > 0).map(words)).toEqual([]);
  expect(1 - missed.length / bad.length).toBeGreaterThanOrEqual(RECALL);
  expect(warned.length / good.length).toBeLessThanOrEqual(FALSE_WARNINGS);
});

interface Told {
  readonly example: CorpusExample;
  readonly hazards: readonly Hazard[];
  /** What the server refused. */
  readonly errors: readonly string[];
}

const catalogueOf = ({ example }: Told) => example.source.split(':', 1)[0] ?? '';
const percent = (share: number) => `${(share * 100).toFixed(1)} %`;

/** All examples of a kind are the sessions of one command, each in a schema of its own. */
async function told(kind: Kind): Promise<Told[]> {
  const examples = corpusExamples(kind);
  const database = await temporaryDatabase(18);
  await withClient(database.url, async (client) => {
    for (const { schema } of examples)
      await client.query(`CREATE SCHEMA ${schema}; SET search_path = ${schema}; ${CORPUS_SETUP}`);
  });
  const folder = temporaryFolder();
  const files = examples.map(({ schema, sql }, index) => {
    const file = path.join(folder, `${index}.sql`);
    writeFileSync(file, `SET lock_timeout = '2s';\n${sql}`);
    return { schema, file };
  });
  const report = await rehearse({
    command: [process.execPath, COMMAND, JSON.stringify(files)],
    env: { ...plainEnvironment(), DATABASE_URL: database.url },
    folder,
    clone: { method: 'template' },
    checks: { queries: 'off' },
    profile: { file: await largeProfile(database.url, folder) },
  });
  await database.drop();
  return bySession(report, examples);
}

async function largeProfile(url: string, folder: string): Promise<string> {
  const file = path.join(folder, 'production.profile.json');
  const { exitCode, stderr } = await safemigrate(['profile', '--url', url, '--out', file, '--window', '0']);
  expect(exitCode, stderr).toBe(0);
  const { relations, takenAt } = JSON.parse(readFileSync(file, 'utf8')) as Profile;
  const larger = (figure: number | null) => figure && figure * GROWTH;
  const grown = relations.map((each) => ({
    ...each,
    sizeBytes: larger(each.sizeBytes),
    indexBytes: larger(each.indexBytes),
    rows: larger(each.rows),
  }));
  writeFileSync(file, JSON.stringify(sampleProfile(grown, { takenAt })));
  return file;
}

function bySession(report: Report, examples: readonly CorpusExample[]): Told[] {
  const sessions = new Map<number, string>();
  for (const { session, sql } of report.statements) {
    const schema = /^SET search_path = (\w+)/.exec(sql)?.[1];
    if (schema !== undefined) sessions.set(session, schema);
  }
  // Objects of one name are in all schemas: the statement may be another one of that name, and so may the relation.
  const schemasOf = ({ statement, relation, message }: Hazard) => {
    const at = report.statements.find(({ index }) => index === statement);
    return [/\b(?:bad|good)_\d+\b/.exec(`${relation} ${message}`)?.[0], at && sessions.get(at.session)];
  };
  const hazards = report.hazards.map((hazard) => ({ hazard, schemas: schemasOf(hazard) }));
  return examples.map((example) => ({
    example,
    hazards: hazards.flatMap(({ hazard, schemas }) => (schemas.includes(example.schema) ? [hazard] : [])),
    errors: report.statements.flatMap(({ session, error }) =>
      error && sessions.get(session) === example.schema ? [error.message] : [],
    ),
  }));
}
