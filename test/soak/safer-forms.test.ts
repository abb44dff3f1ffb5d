import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { rehearse } from '../../src/index.ts';
import type { Report } from '../../src/model/report.ts';
import { isScripted } from '../../src/propose/scripted-hazards.ts';
import { recordFigures } from '../bench/figures.ts';
import { plainEnvironment } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { temporaryDatabase } from '../helpers/database.ts';
import { skipReason } from '../helpers/requirements.ts';
import { useOwnServers } from '../helpers/servers.ts';
import { toolchain } from '../helpers/toolchains.ts';
import type { Migration } from './public-projects/batches.ts';
import { CORPORA } from './public-projects/corpora.ts';
import { FILL } from './public-projects/fill.ts';
import { measure } from './public-projects/measured.ts';

/**
 * The migrations that other projects ship, each with --propose, on tables with rows: how many of the findings that a script may take
 * away it does take away, proved.
 */
const VERSION = 18;
const COMMAND = fileURLToPath(new URL('../helpers/commands/run-statements.mjs', import.meta.url));
/** Only so many migrations of each corpus. */
const LIMIT = Number(process.env.SAFER_FORMS_LIMIT ?? Number.POSITIVE_INFINITY);

/** The share that has to get a proved form. */
const LEAST = 0.6;

const found = await Promise.all(
  CORPORA.map(async (corpus) => ({
    ...corpus,
    tools: await toolchain(corpus.name, corpus.folder, corpus.toolchain),
  })),
);

const scratch = mkdtempSync(path.join(tmpdir(), 'safemigrate-forms-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
beforeAll(() => useOwnServers(VERSION), 60_000);

interface Tried {
  readonly migration: string;
  /** Scripted findings, and those of them that the proved script takes away. */
  readonly findings: readonly string[];
  readonly taken: readonly string[];
  readonly why: readonly string[];
}

describe.each(found)('$name', ({ name, tools, record, batches }) => {
  test.skipIf(skipReason('missing' in tools ? tools.missing : null))(
    'findings get a proved form',
    async () => {
      if ('missing' in tools) throw new Error(tools.missing);
      const empty = await temporaryDatabase(VERSION);
      const recorded = await record(tools.folder, empty.url);
      await empty.drop();
      const database = await temporaryDatabase(VERSION);
      const tried: Tried[] = [];
      for (const migration of batches(recorded).flat().slice(0, LIMIT)) {
        await withClient(database.url, (client) => client.query(FILL));
        const report = await proposeFor(migration, database.url);
        if (report.command.exitCode === 0) tried.push(resultOf(migration, report));
        const { failed } = await withClient(database.url, (client) => measure(client, migration));
        if (failed) await withClient(database.url, (client) => applyToEmpty(client, migration));
      }
      await database.drop();
      const total = tried.flatMap(({ findings }) => findings).length;
      const taken = tried.flatMap((each) => each.taken).length;
      recordFigures(
        `safer forms for the migrations of ${name}`,
        [{ migrations: tried.length, findings: total, proved: taken }],
        reasonsIn(tried),
      );
      expect(taken / Math.max(total, 1)).toBeGreaterThanOrEqual(LEAST);
    },
    60 * 60_000,
  );
});

/** Each reason for a finding that stays, with the migrations that gave it. */
function reasonsIn(tried: readonly Tried[]): string[] {
  const migrations = new Map<string, string[]>();
  for (const { migration, why } of tried)
    for (const reason of why) migrations.set(reason, [...(migrations.get(reason) ?? []), migration]);
  return [...migrations].map(
    ([reason, names]) => `${reason} (${names.length}: ${[...new Set(names)].join(', ')})`,
  );
}

function proposeFor(migration: Migration, url: string): Promise<Report> {
  const file = path.join(scratch, 'migrations.json');
  writeFileSync(file, JSON.stringify([migration]));
  const propose = path.join(scratch, 'safer.sql');
  rmSync(propose, { force: true });
  return rehearse({
    command: [process.execPath, COMMAND, file],
    env: { ...plainEnvironment(), DATABASE_URL: url },
    folder: scratch,
    clone: { method: 'template' },
    checks: { queries: 'off' },
    propose,
  });
}

function resultOf({ name: migration }: Migration, { hazards, proposal }: Report): Tried {
  const findings = hazards.map(({ code }) => code).filter((code) => isScripted(code, { version: '18' }));
  const proved = proposal?.outcome === 'proved';
  const taken = proved
    ? hazards.filter(({ code, statement }) =>
        proposal.changes.some((each) => each.statement === statement && each.codes.includes(code)),
      )
    : [];
  return {
    migration,
    findings,
    taken: taken.map(({ code }) => code),
    why: [
      ...(proposal?.reasons ?? []),
      ...(proposal?.left ?? []).map(({ codes, words }) => `${codes.join(', ')} left: ${words}`),
    ],
  };
}

async function applyToEmpty(client: Client, { statements }: Migration): Promise<void> {
  const tables = statements.flatMap((sql) => /^ALTER TABLE (?:IF EXISTS )?("\w+")/i.exec(sql)?.[1] ?? []);
  await client.query(`TRUNCATE ${[...new Set(tables)].join(', ')} CASCADE`);
  for (const statement of statements) await client.query(statement);
}
