import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { runProgram } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { temporaryDatabase } from '../helpers/database.ts';
import { copyProject, type ProjectId, project } from '../helpers/projects.ts';
import { psqlCommand, rehearse } from '../helpers/rehearse.ts';
import { skipReason } from '../helpers/requirements.ts';
import { useOwnServers } from '../helpers/servers.ts';
import { inThisShare } from '../helpers/share.ts';

beforeAll(() => useOwnServers(18));

const SQL = [
  'UPDATE customers SET name = upper(name)',
  'CREATE INDEX customers_name_idx ON customers (name)',
  'ALTER TABLE customers ADD CONSTRAINT customers_named CHECK (length(name) > 0)',
];
const FULL = `INSERT INTO customers (email, name) SELECT 'u' || n || '@example.com', 'User ' || n FROM generate_series(1, 3000) AS n`;

/** What takes its hazards away is checked with them. */
const CODES = ['BACKFILL_IN_ONE_TRANSACTION', 'INDEX_NOT_CONCURRENT', 'CHECK_SCANS_TABLE'];

/** Adds a migration to Drizzle's folder and its journal. */
function addToDrizzle(folder: string, tag: string, sql: string): void {
  const at = path.join(folder, 'drizzle/meta/_journal.json');
  const journal = JSON.parse(readFileSync(at, 'utf8')) as { entries: Record<string, unknown>[] };
  const last = journal.entries.at(-1) ?? {};
  const entry = { ...last, idx: journal.entries.length, when: Number(last.when) + 1000, tag };
  writeFileSync(at, JSON.stringify({ ...journal, entries: [...journal.entries, entry] }));
  writeFileSync(path.join(folder, `drizzle/${tag}.sql`), sql);
}

/** Adds one migration to a copy of the project. */
const ADD: Readonly<Partial<Record<ProjectId, (folder: string) => void>>> = {
  knex: (folder) =>
    writeFileSync(
      path.join(folder, 'migrations/20260301_names.js'),
      `export const up = (knex) => knex.raw(\`${SQL.join('; ')}\`);\nexport const down = () => {};\n`,
    ),
  'node-pg-migrate': (folder) =>
    writeFileSync(
      path.join(folder, 'migrations/1772355600000_names.js'),
      `export const up = (pgm) => ${JSON.stringify(SQL)}.forEach((sql) => pgm.sql(sql));\nexport const down = false;\n`,
    ),
  dbmate: (folder) =>
    writeFileSync(
      path.join(folder, 'db/migrations/20260301090000_names.sql'),
      `-- migrate:up\n${SQL.join(';\n')};\n-- migrate:down\n`,
    ),
  drizzle: (folder) => addToDrizzle(folder, '0004_names', SQL.join(';\n--> statement-breakpoint\n')),
};

describe.each(inThisShare(Object.keys(ADD) as ProjectId[]))('%s', (id) => {
  const available = project(id).available();
  test.skipIf(skipReason(available === true ? null : available))(
    'gets a safer form, after which it finds its migration applied',
    async () => {
      const { command, environment } = project(id);
      const target = await temporaryDatabase(18);
      const { folder, remove } = await copyProject(id);
      const env = environment(target.url);
      try {
        expect((await runProgram(command, { folder, env })).exitCode).toBe(0);
        await withClient(target.url, (client) => client.query(FULL));
        ADD[id]?.(folder);
        const file = path.join(folder, 'safer.sql');
        const { report } = await rehearse(target.url, command, { folder, env, args: ['--propose', file] });
        expect(report.proposal, JSON.stringify(report.proposal?.reasons)).toMatchObject({
          outcome: 'proved',
          left: [],
        });
        const codes = report.proposal?.changes.flatMap((change) => change.codes);
        expect(codes).toEqual(expect.arrayContaining(CODES));
        const ran = await runProgram(psqlCommand('-f', file), { env: { ...env, DATABASE_URL: target.url } });
        expect(ran.exitCode, ran.stderr + readFileSync(file, 'utf8')).toBe(0);
        const after = await runProgram(command, { folder, env });
        expect(after.exitCode, after.stdout + after.stderr).toBe(0);
      } finally {
        await remove();
      }
    },
  );
});

describe.each([['drizzle', '0004_names.sql', 'drizzle']] as const)('%s', (id, name, place) => {
  const available = project(id).available();
  test.skipIf(skipReason(available === true ? null : available))(
    'runs its safer form as a migration of its own in the place of the original',
    async () => {
      const { command, environment, journal } = project(id);
      const target = await temporaryDatabase(18);
      const { folder, remove } = await copyProject(id);
      const env = environment(target.url);
      try {
        expect((await runProgram(command, { folder, env })).exitCode).toBe(0);
        await withClient(target.url, (client) => client.query(FULL));
        ADD[id]?.(folder);
        const { report, stderr } = await rehearse(target.url, command, {
          folder,
          env: { ...env, SAFEMIGRATE_PROPOSE_FORMAT: id },
          args: ['--propose', 'proposed'],
        });
        expect(report.proposal, stderr).toMatchObject({ outcome: 'proved', left: [], reasons: [] });
        expect(readdirSync(path.join(folder, 'proposed'))).toEqual([name]);
        cpSync(path.join(folder, 'proposed'), path.join(folder, place), { recursive: true });
        const safer = await rehearse(target.url, command, { folder, env });
        expect(safer.report.command.exitCode, safer.stderr).toBe(0);
        expect(safer.report.schema?.after).toBe(report.schema?.after);
        const codes = safer.report.hazards.map(({ code }) => code);
        expect(CODES.filter((code) => codes.includes(code))).toEqual([]);
        const recorded = () =>
          withClient(target.url, async (client) => (await client.query(`SELECT * FROM ${journal}`)).rows);
        expect((await runProgram(command, { folder, env })).exitCode).toBe(0);
        const once = await recorded();
        expect((await runProgram(command, { folder, env })).exitCode).toBe(0);
        expect(await recorded()).toEqual(once);
      } finally {
        await remove();
      }
    },
  );
});

describe('of several migrations of one command', () => {
  const { available, command, environment, journal } = project('drizzle');
  const known = available();
  const ADDED: Readonly<Record<string, string>> = {
    '0004_index': SQL[1] ?? '',
    '0005_table': 'CREATE TABLE notes (id int)',
    '0006_check': SQL[2] ?? '',
  };

  test.skipIf(skipReason(known === true ? null : known))(
    'each that has a safer form gets a file, and the others stay',
    async () => {
      const target = await temporaryDatabase(18);
      const { folder, remove } = await copyProject('drizzle');
      const env = environment(target.url);
      try {
        expect((await runProgram(command, { folder, env })).exitCode).toBe(0);
        await withClient(target.url, (client) => client.query(FULL));
        for (const [tag, sql] of Object.entries(ADDED)) addToDrizzle(folder, tag, sql);
        const { report, stderr } = await rehearse(target.url, command, {
          folder,
          env: { ...env, SAFEMIGRATE_PROPOSE_FORMAT: 'drizzle' },
          args: ['--propose', 'proposed'],
        });
        expect(report.proposal, stderr).toMatchObject({ outcome: 'proved', left: [], reasons: [] });
        const proposed = path.join(folder, 'proposed');
        expect(readdirSync(proposed).sort()).toEqual(['0004_index.sql', '0006_check.sql']);
        expect(readFileSync(path.join(proposed, '0004_index.sql'), 'utf8')).not.toMatch(
          /customers_named|notes/,
        );
        cpSync(proposed, path.join(folder, 'drizzle'), { recursive: true });
        const safer = await rehearse(target.url, command, { folder, env });
        expect(safer.report.command.exitCode, safer.stderr).toBe(0);
        expect(safer.report.schema?.after).toBe(report.schema?.after);
        const codes = safer.report.hazards.map(({ code }) => code);
        expect(CODES.filter((code) => codes.includes(code))).toEqual([]);
        expect((await runProgram(command, { folder, env })).exitCode).toBe(0);
        await withClient(target.url, async (client) => {
          const { rows } = await client.query(`SELECT created_at FROM ${journal} ORDER BY id`);
          expect(rows).toHaveLength(4 + Object.keys(ADDED).length);
        });
      } finally {
        await remove();
      }
    },
  );
});
