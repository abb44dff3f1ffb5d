import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { RehearsalEvidence } from '../../src/hazards/judgement.ts';
import { rehearse } from '../../src/index.ts';
import type { Report, StatementSection } from '../../src/model/report.ts';
import { LOCK_MODES } from '../../src/postgres/lock-modes.ts';
import { recordFigures } from '../bench/figures.ts';
import { plainEnvironment } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { type TemporaryDatabase, temporaryDatabase } from '../helpers/database.ts';
import { skipReason } from '../helpers/requirements.ts';
import { useOwnServers } from '../helpers/servers.ts';
import { toolchain } from '../helpers/toolchains.ts';
import { type Migration, tablesOf } from './public-projects/batches.ts';
import { CORPORA } from './public-projects/corpora.ts';
import { FILL } from './public-projects/fill.ts';
import { type Measured, measure } from './public-projects/measured.ts';
import { type Judged, precision, recall, scoreRow, scores } from './public-projects/score.ts';

/**
 * Migrations that other projects ship, rehearsed where their predecessors have been and the tables have rows. What is
 * rewritten and locked is compared with PostgreSQL's own word; what is a warning or an error with labels that were written
 * from reading the SQL, before the first run. They are about large, busy tables: see `enlarged`.
 */
const VERSION = 18;
const COMMAND = fileURLToPath(new URL('../helpers/commands/run-statements.mjs', import.meta.url));

/** What a table with some rows is taken for; between the limits of a warning and of an error of hazards/thresholds.ts. */
const LARGE = { sizeBytes: 2 ** 30, rows: 2_000_000 };
const BUSY = { readsPerSecond: 2, insertsPerSecond: 0, writesPerSecond: 1 };

vi.mock('../../src/hazards/judgement.ts', async (importOriginal) => {
  const judgement = await importOriginal<typeof import('../../src/hazards/judgement.ts')>();
  const reachJudgement: typeof judgement.reachJudgement = (evidence, policy, today) =>
    judgement.reachJudgement(enlarged(evidence), policy, today);
  return { ...judgement, reachJudgement };
});

/** The same measurements, on tables that are large and in use. Times stay as they are. */
function enlarged(evidence: RehearsalEvidence): RehearsalEvidence {
  const { catalogue, traffic } = evidence;
  const relations = new Map(
    [...catalogue.relations].map(([name, relation]) => [
      name,
      relation.rows === 0 ? relation : { ...relation, ...LARGE },
    ]),
  );
  if ('unmeasured' in traffic) throw new Error(traffic.unmeasured);
  const names = [...relations.keys(), ...catalogue.renamed.keys()];
  return {
    ...evidence,
    catalogue: { ...catalogue, relations },
    traffic: { ...traffic, relations: new Map(names.map((name) => [name, BUSY])) },
  };
}

interface Compared {
  readonly migration: string;
  readonly measured: Measured;
  readonly reported: Pick<Measured, 'rewritten' | 'locked'>;
}

const found = await Promise.all(
  CORPORA.map(async (corpus) => ({
    ...corpus,
    tools: await toolchain(corpus.name, corpus.folder, corpus.toolchain),
  })),
);

beforeAll(() => useOwnServers(VERSION), 60_000);

describe.each(found)('$name', ({ name, tools, record, batches, labels, harmless, least }) => {
  describe.skipIf(skipReason('missing' in tools ? tools.missing : null))('migrations', () => {
    const judged: Judged[] = [];
    const compared: Compared[] = [];
    let scratch: string;

    beforeAll(async () => {
      scratch = mkdtempSync(path.join(tmpdir(), 'safemigrate-public-'));
      const recorded = await recordMigrations();
      const labelled = new Set([...Object.keys(labels), ...harmless]);
      const migrations = recorded.filter(({ name }) => labelled.has(name));
      const unknown = recorded.length - migrations.length;
      const absent = [...labelled].filter((name) => recorded.every((each) => each.name !== name));
      expect({ unknown, absent }).toEqual({ unknown: 0, absent: [] });
      const database = await temporaryDatabase(VERSION);
      for (const batch of batches(migrations)) await judgeBatch(batch, database);
      await database.drop();
    }, 30 * 60_000);

    afterAll(() => rmSync(scratch, { recursive: true, force: true }));

    test('all of them are judged', () => {
      expect(judged.length).toBe(Object.keys(labels).length + harmless.length);
    });

    test('every rewrite is found, and no other', () => {
      expect(compared.map(({ migration, reported }) => [migration, reported.rewritten])).toEqual(
        compared.map(({ migration, measured }) => [migration, measured.rewritten]),
      );
    });

    test('every lock that keeps out reads or writes is found, and no other', () => {
      expect(compared.map(({ migration, reported }) => [migration, reported.locked])).toEqual(
        compared.map(({ migration, measured }) => [migration, measured.locked]),
      );
    });

    test('warnings and errors are those that a reader of the SQL expects', () => {
      const table = scores(judged);
      const all = table.at(-1);
      if (!all) throw new Error('nothing was judged');
      const count = (read: (measured: Measured) => readonly unknown[]) =>
        compared.flatMap(({ measured }) => read(measured)).length;
      recordFigures(`hazards in the migrations of ${name}`, table.map(scoreRow), [
        `${judged.length} migrations, ${count(({ rewritten }) => rewritten)} rewrites, ` +
          `${count(({ locked }) => locked)} strong locks on tables that were there before.`,
        ...judged.flatMap(({ migration, expected, told }) => [
          ...expected
            .filter((code) => !told.includes(code))
            .map((code) => `Missed: ${code} in ${migration}.`),
          ...told.filter((code) => !expected.includes(code)).map((code) => `Wrong: ${code} in ${migration}.`),
        ]),
      ]);
      expect(precision(all)).toBeGreaterThanOrEqual(least);
      expect(recall(all)).toBeGreaterThanOrEqual(least);
    });

    async function judgeBatch(batch: readonly Migration[], database: TemporaryDatabase): Promise<void> {
      // Filling them is no traffic of an application.
      await withClient(database.url, async (client) => {
        await client.query(FILL);
        await client.query('SELECT pg_stat_force_next_flush()');
        await client.query('SELECT pg_stat_reset()');
      });
      const file = path.join(scratch, 'migrations.json');
      writeFileSync(file, JSON.stringify(batch));
      const report = await rehearse({
        command: [process.execPath, COMMAND, file],
        env: { ...plainEnvironment(), DATABASE_URL: database.url },
        folder: scratch,
        clone: { method: 'template' },
        checks: { queries: 'off' },
      });
      const tables = await withClient(database.url, tableNames);
      for (const migration of batch) {
        const measured = await withClient(database.url, (client) => measure(client, migration));
        // What fails on rows succeeds without them, and those that follow need it.
        if (measured.failed) await withClient(database.url, (client) => applyToEmpty(client, migration));
        else
          compared.push({
            migration: migration.name,
            measured: sorted(measured),
            reported: said(report, migration, tables),
          });
        judged.push({
          migration: migration.name,
          expected: [...new Set(labels[migration.name] ?? [])],
          told: told(report, migration),
        });
      }
    }

    /** The SQL that the packages' own machinery sends to an empty database. */
    async function recordMigrations(): Promise<Migration[]> {
      if ('missing' in tools) throw new Error(tools.missing);
      const empty = await temporaryDatabase(VERSION);
      try {
        return await record(tools.folder, empty.url);
      } finally {
        await empty.drop();
      }
    }
  });
});

const STRONG: readonly string[] = LOCK_MODES.slice(LOCK_MODES.indexOf('SHARE'));

function statementsOf({ statements }: Report, { name }: Migration): StatementSection[] {
  const session = statements.find(({ sql }) => sql === `SET application_name = '${name}'`)?.session;
  return statements.filter((statement) => statement.session === session);
}

/** Codes of warnings and errors that the statements of one migration led to, or else the tables that only it changes. */
function told(report: Report, migration: Migration): string[] {
  const indexes = new Set(statementsOf(report, migration).map(({ index }) => index));
  const tables = tablesOf(migration).changed.map((table) => `public.${table}`);
  const own = report.hazards.filter(({ statement, relation }) =>
    statement === null ? relation !== null && tables.includes(relation) : indexes.has(statement),
  );
  // Of the command as a whole, which is many migrations here.
  const single = own.filter(({ code }) => code !== 'HALF_APPLIED');
  return [...new Set(single.filter(({ severity }) => severity !== 'notice').map(({ code }) => code))];
}

/** The same as PostgreSQL was asked for, as the report has it. `before` are the tables that were there. */
function said(report: Report, migration: Migration, before: ReadonlySet<string>): Compared['reported'] {
  const statements = statementsOf(report, migration);
  const renames = new Map((report.schema?.renames ?? []).map(({ from, to }) => [from, to]));
  const known = new Set([...before].map((name) => renames.get(name) ?? name));
  const strongest = new Map<string, number>();
  for (const { relation, mode } of statements.flatMap(({ locks }) => locks ?? []))
    if (known.has(relation))
      strongest.set(relation, Math.max(STRONG.indexOf(mode), strongest.get(relation) ?? -1));
  const locked = [...strongest].flatMap(([relation, mode]) =>
    mode < 0 ? [] : [`${STRONG[mode]} ${relation}`],
  );
  const rewrote = new Set(statements.flatMap(({ rewrote }) => rewrote));
  return sorted({ rewritten: [...rewrote].filter((name) => known.has(name)), locked });
}

function sorted<Result extends Pick<Measured, 'rewritten' | 'locked'>>(result: Result): Result {
  return { ...result, rewritten: [...result.rewritten].sort(), locked: [...result.locked].sort() };
}

async function tableNames(client: Client): Promise<Set<string>> {
  const { rows } = await client.query<{ name: string }>(
    "SELECT 'public.' || relname AS name FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace",
  );
  return new Set(rows.map(({ name }) => name));
}

async function applyToEmpty(client: Client, { statements }: Migration): Promise<void> {
  const tables = statements.flatMap((sql) => /^ALTER TABLE (?:IF EXISTS )?("\w+")/i.exec(sql)?.[1] ?? []);
  await client.query(`TRUNCATE ${[...new Set(tables)].join(', ')} CASCADE`);
  for (const statement of statements) await client.query(statement);
}
