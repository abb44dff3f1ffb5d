import { cpSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { runProgram, safemigrate } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { ownServer } from '../helpers/own-server.ts';
import { readReport } from '../helpers/read-report.ts';
import { psqlCommand } from '../helpers/rehearse.ts';
import { skipReason } from '../helpers/requirements.ts';
import { inThisShare } from '../helpers/share.ts';
import { withDatabase } from '../helpers/target-state.ts';
import { findTool, type ToolId } from '../helpers/tools.ts';

const SQL = [
  'UPDATE customers SET name = upper(name)',
  'CREATE INDEX customers_name_idx ON customers (name)',
  'ALTER TABLE customers ADD CONSTRAINT customers_named CHECK (length(name) > 0)',
];
const FULL = `INSERT INTO customers (email, name, created_at)
  SELECT 'u' || n || '@example.com', 'User ' || n, now() FROM generate_series(1, 3000) AS n`;
const CODES = ['BACKFILL_IN_ONE_TRANSACTION', 'INDEX_NOT_CONCURRENT', 'CHECK_SCANS_TABLE'];
/** As literals of Python and of Ruby. */
const LITERALS = SQL.map((sql) => JSON.stringify(sql));

/**
 * As a migration of its own, Prisma runs the safer form of these: its engine in JavaScript divides a file at every semicolon, also within
 * the loop that an UPDATE becomes. The native one sends a file as one message.
 */
const WITHOUT_LOOP = `${SQL.slice(1).join(';\n')};\n`;

/** One migration more: its file, and what is in it. */
const ADDED: Readonly<Partial<Record<ToolId, readonly [file: string, text: string]>>> = {
  prisma: ['prisma/migrations/20260301090000_names/migration.sql', `${SQL.join(';\n')};\n`],
  flyway: ['migrations/V6__names.sql', `${SQL.join(';\n')};\n`],
  alembic: [
    'migrations/versions/6a0d2b7c9e11_names.py',
    `from alembic import op\nrevision = "6a0d2b7c9e11"\ndown_revision = "4d5a02f7c168"\n
def upgrade():\n${LITERALS.map((sql) => `    op.execute(${sql})\n`).join('')}
def downgrade():\n    pass\n`,
  ],
  django: [
    'shop/migrations/0005_names.py',
    `from django.db import migrations\n
class Migration(migrations.Migration):
    dependencies = [("shop", "0004_find_open_orders")]
    operations = [${LITERALS.map((sql) => `migrations.RunSQL(${sql})`).join(', ')}]\n`,
  ],
  rails: [
    'db/migrate/20260301090000_names.rb',
    `class Names < ActiveRecord::Migration[6.1]
  def up\n${LITERALS.map((sql) => `    execute ${sql}\n`).join('')}  end\nend\n`,
  ],
};

/** Takes the original out of the project, and puts in what is to take its place. */
function replaceMigration(id: ToolId, folder: string, original: string): void {
  const file = path.join(folder, original);
  const [place, name] = [path.dirname(file), path.basename(file)];
  if (id === 'django') renameSync(file, path.join(place, `_${name}`));
  else rmSync(id === 'prisma' ? place : file, { recursive: true });
  const into = id === 'prisma' ? path.dirname(place) : place;
  cpSync(path.join(folder, 'proposed'), into, { recursive: true });
}

const TOOLS = Object.keys(ADDED) as ToolId[];
const CASES = inThisShare(
  TOOLS.flatMap((id) => [
    { id, what: 'one script' },
    { id, what: 'a migration' },
  ]),
  ({ what }) => what,
);

for (const id of TOOLS.filter((each) => CASES.some((taken) => taken.id === each))) {
  const isTaken = (what: string) => CASES.some((taken) => taken.id === id && taken.what === what);
  const tool = await findTool(id);
  const missing = 'missing' in tool ? tool.missing : null;
  describe(id, () => {
    let server: Server | undefined;
    beforeAll(async () => {
      if ('missing' in tool) return;
      server = await ownServer(18);
      const base = await databaseOf(server, 'CREATE DATABASE base');
      const copy = await tool.copy();
      try {
        const env = await copy.configure(base, 'variables');
        const first = await runProgram(tool.command, { folder: copy.folder, env });
        expect(first.exitCode, first.stdout + first.stderr).toBe(0);
        await withClient(base, (client) => client.query(FULL));
      } finally {
        await copy.remove();
      }
    });
    afterAll(() => server?.stop());

    /** A project with one migration more than its target has. */
    async function project(database: string, text: string) {
      if ('missing' in tool || server === undefined) throw new Error(`${id} is missing`);
      const target = await databaseOf(server, `CREATE DATABASE ${database} TEMPLATE base`);
      const copy = await tool.copy();
      onTestFinished(() => copy.remove());
      const env = await copy.configure(target, 'variables');
      const name = ADDED[id]?.[0] ?? '';
      mkdirSync(path.dirname(path.join(copy.folder, name)), { recursive: true });
      writeFileSync(path.join(copy.folder, name), text);
      const rehearse = async (more: NodeJS.ProcessEnv, ...args: string[]) => {
        const file = path.join(copy.folder, 'r.json');
        const words = ['--clone', 'template', ...args, '--report', file, ...tool.options(target), '--'];
        const { stderr } = await safemigrate([...words, ...tool.command], {
          folder: copy.folder,
          env: { ...env, ...more },
        });
        return { stderr, report: readReport(readFileSync(file, 'utf8')) };
      };
      const migrate = async () => {
        const ran = await runProgram(tool.command, { folder: copy.folder, env });
        expect(ran.exitCode, ran.stdout + ran.stderr).toBe(0);
      };
      return { target, folder: copy.folder, env, name, journal: tool.journal, rehearse, migrate };
    }

    if (isTaken('one script'))
      test.skipIf(skipReason(missing))(
        'gets a safer form, after which it finds its migration applied',
        async () => {
          const { target, folder, env, rehearse, migrate } = await project('first', ADDED[id]?.[1] ?? '');
          const file = path.join(folder, 'safer.sql');
          const { report, stderr } = await rehearse({}, '--propose', file);
          expect(report.proposal?.reasons, stderr).toEqual([]);
          expect(report.proposal).toMatchObject({ outcome: 'proved', left: [] });
          expect(report.proposal?.changes.flatMap((change) => change.codes)).toEqual(
            expect.arrayContaining(CODES),
          );
          const ran = await runProgram(psqlCommand('-f', file), { env: { ...env, DATABASE_URL: target } });
          expect(ran.exitCode, ran.stderr).toBe(0);
          await migrate();
        },
      );

    if (isTaken('a migration'))
      test.skipIf(skipReason(missing))(
        'runs its safer form as a migration of its own in the place of the original',
        async () => {
          const text = id === 'prisma' ? WITHOUT_LOOP : (ADDED[id]?.[1] ?? '');
          const { target, folder, name, journal, rehearse, migrate } = await project('second', text);
          const { report, stderr } = await rehearse(
            { SAFEMIGRATE_PROPOSE_FORMAT: id },
            '--propose',
            'proposed',
          );
          expect(report.proposal, stderr).toMatchObject({ outcome: 'proved', left: [], reasons: [] });
          replaceMigration(id, folder, name);
          const safer = await rehearse({});
          expect(safer.report.command.exitCode, safer.stderr).toBe(0);
          expect(safer.report.schema?.after).toBe(report.schema?.after);
          const codes = safer.report.hazards.map(({ code }) => code);
          expect(CODES.filter((code) => codes.includes(code))).toEqual([]);
          const count = () =>
            withClient(
              target,
              async (client) => (await client.query(`SELECT count(*) FROM ${journal}`)).rows as unknown[],
            );
          await migrate();
          const recorded = await count();
          await migrate();
          expect(await count()).toEqual(recorded);
        },
      );
  });
}

/** Makes a database. @returns its URL. */
async function databaseOf(server: Server, statement: string): Promise<string> {
  await withClient(server.url, (client) => client.query(statement));
  return withDatabase(server.url, statement.split(' ')[2] ?? '');
}
