import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { runProgram } from '../helpers/cli.ts';
import { temporaryDatabase } from '../helpers/database.ts';
import { rehearse } from '../helpers/rehearse.ts';
import { skipReason } from '../helpers/requirements.ts';
import { useOwnServers } from '../helpers/servers.ts';
import { findTool, type ToolId } from '../helpers/tools.ts';

beforeAll(() => useOwnServers(18));

interface Incident {
  readonly id: ToolId;
  readonly what: string;
  /** A file that is merged after the first deployment. */
  readonly file: string;
  readonly text: string;
  readonly told: string;
}

const RAILS =
  'class AddPrice < ActiveRecord::Migration[6.1]\n  def change\n    create_table :prices\n  end\nend\n';
const INCIDENTS: readonly Incident[] = [
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

describe.each(INCIDENTS)('$id, with $what', async ({ id, file, text, told }) => {
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
        const { report, exitCode } = await rehearse(target.url, tool.command, { folder, env, args });
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
