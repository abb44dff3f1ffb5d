import { cpSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { runProgram, safemigrate } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { ownServer } from '../helpers/own-server.ts';
import { readReport } from '../helpers/read-report.ts';
import { psqlCommand } from '../helpers/rehearse.ts';
import { skipReason } from '../helpers/requirements.ts';
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

for (const id of Object.keys(ADDED) as ToolId[]) {
  const tool = await findTool(id);
  const missing = 'missing' in tool ? tool.missing : null;
  describe(id, () => {
    test.skipIf(skipReason(missing))(
      'gets a safer form, after which it finds its migration applied',
      async () => {
        if ('missing' in tool) return;
        const server = await ownServer(18);
        const copy = await tool.copy();
        try {
          await withClient(server.url, (client) => client.query('CREATE DATABASE the_target'));
          const target = withDatabase(server.url, 'the_target');
          const env = await copy.configure(target, 'variables');
          const run = (command: readonly string[]) => runProgram(command, { folder: copy.folder, env });
          const first = await run(tool.command);
          expect(first.exitCode, first.stdout + first.stderr).toBe(0);
          await withClient(target, (client) => client.query(FULL));
          const [name, text] = ADDED[id] ?? ['', ''];
          mkdirSync(path.dirname(path.join(copy.folder, name)), { recursive: true });
          writeFileSync(path.join(copy.folder, name), text);
          const [file, report] = ['safer.sql', 'r.json'].map((each) => path.join(copy.folder, each));
          const args = ['--clone', 'template', '--propose', file ?? '', '--report', report ?? ''];
          const { stderr } = await safemigrate([...args, ...tool.options(target), '--', ...tool.command], {
            folder: copy.folder,
            env,
          });
          const { proposal } = readReport(readFileSync(report ?? '', 'utf8'));
          expect(proposal?.reasons, stderr).toEqual([]);
          expect(proposal).toMatchObject({ outcome: 'proved', left: [] });
          expect(proposal?.changes.flatMap((change) => change.codes)).toEqual(expect.arrayContaining(CODES));
          const ran = await runProgram(psqlCommand('-f', file ?? ''), {
            env: { ...env, DATABASE_URL: target },
          });
          expect(ran.exitCode, ran.stderr).toBe(0);
          const again = await run(tool.command);
          expect(again.exitCode, again.stdout + again.stderr).toBe(0);
        } finally {
          await copy.remove();
          await server.stop();
        }
      },
    );

    test.skipIf(skipReason(missing))(
      'runs its safer form as a migration of its own in the place of the original',
      async () => {
        if ('missing' in tool) return;
        const server = await ownServer(18);
        const copy = await tool.copy();
        try {
          await withClient(server.url, (client) => client.query('CREATE DATABASE the_target'));
          const target = withDatabase(server.url, 'the_target');
          const env = await copy.configure(target, 'variables');
          const run = () => runProgram(tool.command, { folder: copy.folder, env });
          const first = await run();
          expect(first.exitCode, first.stdout + first.stderr).toBe(0);
          await withClient(target, (client) => client.query(FULL));
          const [name, text] = ADDED[id] ?? ['', ''];
          mkdirSync(path.dirname(path.join(copy.folder, name)), { recursive: true });
          writeFileSync(path.join(copy.folder, name), id === 'prisma' ? WITHOUT_LOOP : text);
          const rehearse = async (more: NodeJS.ProcessEnv, ...args: string[]) => {
            const file = path.join(copy.folder, 'r.json');
            const words = ['--clone', 'template', ...args, '--report', file, ...tool.options(target), '--'];
            const { stderr } = await safemigrate([...words, ...tool.command], {
              folder: copy.folder,
              env: { ...env, ...more },
            });
            return { stderr, report: readReport(readFileSync(file, 'utf8')) };
          };
          const { report, stderr } = await rehearse(
            { SAFEMIGRATE_PROPOSE_FORMAT: id },
            '--propose',
            'proposed',
          );
          expect(report.proposal, stderr).toMatchObject({ outcome: 'proved', left: [], reasons: [] });
          replaceMigration(id, copy.folder, name);
          const safer = await rehearse({});
          expect(safer.report.command.exitCode, safer.stderr).toBe(0);
          expect(safer.report.schema?.after).toBe(report.schema?.after);
          const codes = safer.report.hazards.map(({ code }) => code);
          expect(CODES.filter((code) => codes.includes(code))).toEqual([]);
          const count = () =>
            withClient(
              target,
              async (client) =>
                (await client.query(`SELECT count(*) FROM ${tool.journal}`)).rows as unknown[],
            );
          const once = await run();
          expect(once.exitCode, once.stdout + once.stderr).toBe(0);
          const recorded = await count();
          const again = await run();
          expect(again.exitCode, again.stdout + again.stderr).toBe(0);
          expect(await count()).toEqual(recorded);
        } finally {
          await copy.remove();
          await server.stop();
        }
      },
    );
  });
}
