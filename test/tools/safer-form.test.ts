import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
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
const PYTHON = SQL.map((sql) => JSON.stringify(sql));

/** One migration more: its file, and what is in it. */
const ADDED: Readonly<Partial<Record<ToolId, readonly [file: string, text: string]>>> = {
  prisma: ['prisma/migrations/20260301090000_names/migration.sql', `${SQL.join(';\n')};\n`],
  flyway: ['migrations/V6__names.sql', `${SQL.join(';\n')};\n`],
  alembic: [
    'migrations/versions/6a0d2b7c9e11_names.py',
    `from alembic import op\nrevision = "6a0d2b7c9e11"\ndown_revision = "4d5a02f7c168"\n
def upgrade():\n${PYTHON.map((sql) => `    op.execute(${sql})\n`).join('')}
def downgrade():\n    pass\n`,
  ],
  django: [
    'shop/migrations/0005_names.py',
    `from django.db import migrations\n
class Migration(migrations.Migration):
    dependencies = [("shop", "0004_find_open_orders")]
    operations = [${PYTHON.map((sql) => `migrations.RunSQL(${sql})`).join(', ')}]\n`,
  ],
};

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
          expect(proposal?.changes.flatMap((change) => change.codes)).toEqual(
            expect.arrayContaining([
              'BACKFILL_IN_ONE_TRANSACTION',
              'INDEX_NOT_CONCURRENT',
              'CHECK_SCANS_TABLE',
            ]),
          );
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
  });
}
