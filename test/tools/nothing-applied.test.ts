import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { runProgram } from '../helpers/cli.ts';
import { temporaryDatabase } from '../helpers/database.ts';
import { rehearse } from '../helpers/rehearse.ts';
import { skipReason } from '../helpers/requirements.ts';
import { useOwnServers } from '../helpers/servers.ts';
import { inThisShare } from '../helpers/share.ts';
import { findTool, type ToolId } from '../helpers/tools.ts';

beforeAll(() => useOwnServers(18));

interface Incident {
  readonly id: ToolId;
  readonly what: string;
  /** A file that is merged after the first deployment. */
  readonly file: string;
  readonly text: string;
  /** The command that does not apply it; missing: the project's own. */
  readonly command?: readonly string[];
  readonly told: string;
}

const RAILS =
  'class AddPrice < ActiveRecord::Migration[6.1]\n  def change\n    create_table :prices\n  end\nend\n';
const revision = (name: string, after: string) =>
  `from alembic import op\n\nrevision = "${name}"\ndown_revision = "${after}"\n\n\ndef upgrade() -> None:\n    op.execute("CREATE TABLE prices (id int)")\n`;
const INCIDENTS: readonly Incident[] = [
  {
    id: 'alembic',
    what: 'two files of one revision, of which Alembic takes one',
    file: 'migrations/versions/4d5a02f7c168_prices.py',
    text: revision('4d5a02f7c168', '3c4d7e6f9b52'),
    command: ['alembic', 'upgrade', 'heads'],
    told: 'Alembic has applied only one of migrations/versions/4d5a02f7c168_find_open_orders.py, migrations/versions/4d5a02f7c168_prices.py: they have the same version',
  },
  {
    id: 'alembic',
    what: 'two heads, of which the command names one',
    file: 'migrations/versions/5e6b13a8d279_prices.py',
    text: revision('5e6b13a8d279', '3c4d7e6f9b52'),
    command: ['alembic', 'upgrade', '4d5a02f7c168'],
    told: 'Alembic passes over migrations/versions/5e6b13a8d279_prices.py, since later migrations are applied',
  },
  {
    id: 'flyway',
    what: 'a version below the last applied one, which Flyway ignores unless it validates',
    file: 'migrations/V2_1__prices.sql',
    text: 'CREATE TABLE prices (id int);\n',
    command: ['flyway', '-validateOnMigrate=false', 'migrate'],
    told: 'Flyway passes over migrations/V2_1__prices.sql, since later migrations are applied',
  },
  {
    id: 'flyway',
    what: 'one underscore in a name, which Flyway ignores',
    file: 'migrations/V6_prices.sql',
    text: 'CREATE TABLE prices (id int);\n',
    told: 'Flyway ignores migrations/V6_prices.sql',
  },
  {
    id: 'rails',
    what: 'a name that Rails ignores',
    file: 'db/migrate/20260201090000-prices.rb',
    text: RAILS,
    told: 'Rails ignores db/migrate/20260201090000-prices.rb',
  },
];

describe.each(inThisShare(INCIDENTS))('$id, with $what', async ({ id, file, text, command, told }) => {
  const tool = await findTool(id);
  if ('missing' in tool) {
    test.skipIf(skipReason(tool.missing))('needs its tool', () => undefined);
    return;
  }

  test('succeeds and applies nothing, which is told', async () => {
    const target = await temporaryDatabase(18);
    const { folder, configure, remove } = await tool.copy();
    try {
      const env = await configure(target.url);
      const applied = await runProgram(tool.command, { folder, env });
      expect(applied.exitCode, applied.stderr).toBe(0);
      const again = async () => {
        const args = [...tool.options(target.url), '--fail-on', 'warning'];
        const { report, exitCode } = await rehearse(target.url, command ?? tool.command, {
          folder,
          env,
          args,
        });
        expect(report.command.exitCode).toBe(0);
        return { exitCode, told: report.hazards.map(({ code, message }) => `${code}: ${message}`) };
      };
      expect(await again()).toEqual({ exitCode: 0, told: [] });
      await writeFile(path.join(folder, file), text);
      expect(await again()).toEqual({ exitCode: 1, told: [`NOTHING_APPLIED: ${told}`] });
    } finally {
      await remove();
      await target.drop();
    }
  });
});

/** What the tool refuses by itself needs no history: the command fails, and so does the rehearsal. */
const REFUSED: readonly Omit<Incident, 'told'>[] = [
  {
    id: 'alembic',
    what: 'two heads',
    file: 'migrations/versions/5e6b13a8d279_prices.py',
    text: revision('5e6b13a8d279', '3c4d7e6f9b52'),
  },
  {
    id: 'django',
    what: 'two leaves in one app',
    file: 'shop/migrations/0002_prices.py',
    text: "from django.db import migrations\n\n\nclass Migration(migrations.Migration):\n    dependencies = [('shop', '0001_initial')]\n    operations = []\n",
  },
  {
    id: 'golang-migrate',
    what: 'two files of one version',
    file: 'migrations/20260105090000_prices.up.sql',
    text: 'CREATE TABLE prices (id int);\n',
  },
  {
    id: 'flyway',
    what: 'two files of one version',
    file: 'migrations/V1__prices.sql',
    text: 'CREATE TABLE prices (id int);\n',
  },
];

describe.each(inThisShare(REFUSED))('$id refuses $what', async ({ id, file, text }) => {
  const tool = await findTool(id);
  if ('missing' in tool) {
    test.skipIf(skipReason(tool.missing))('needs its tool', () => undefined);
    return;
  }

  test('by its exit code, and the rehearsal does not pass', async () => {
    const target = await temporaryDatabase(18);
    const { folder, configure, remove } = await tool.copy();
    try {
      const env = await configure(target.url);
      const applied = await runProgram(tool.command, { folder, env });
      expect(applied.exitCode, applied.stderr).toBe(0);
      await writeFile(path.join(folder, file), text);
      const { report, exitCode } = await rehearse(target.url, tool.command, {
        folder,
        env,
        args: tool.options(target.url),
      });
      expect(report.command.exitCode).not.toBe(0);
      expect(exitCode).toBe(1);
      expect(report.verdict.pass).toBe(false);
    } finally {
      await remove();
      await target.drop();
    }
  });
});
