import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { type CliResult, runLine, runProgram } from './cli.ts';
import { withClient } from './client.ts';
import { ownServer } from './own-server.ts';
import { copyProject, project } from './projects.ts';
import { skipReason } from './requirements.ts';
import { withDatabase } from './target-state.ts';
import { findTool, type ToolCopy, type ToolId } from './tools.ts';

/** A migration tool as the CI recipe is tried with it: its project, and how one writes its next migration. */
interface RecipeRow {
  /** Where the migration goes that runs this SQL, and its text. */
  readonly next: (sql: string) => { readonly file: string; readonly text: string };
  /** What else the tool needs to take it. */
  readonly listed?: (folder: string) => Promise<void>;
}

const python = (sql: string) => JSON.stringify(sql);

const ROWS = {
  Prisma: {
    next: (sql) => ({ file: 'prisma/migrations/20260301090000_next/migration.sql', text: `${sql};\n` }),
  },
  Drizzle: {
    next: (sql) => ({ file: 'drizzle/0004_next.sql', text: `${sql};\n` }),
    listed: async (folder) => {
      const file = path.join(folder, 'drizzle/meta/_journal.json');
      const journal = JSON.parse(await readFile(file, 'utf8'));
      journal.entries.push({
        idx: 4,
        version: '7',
        when: 1_772_355_600_000,
        tag: '0004_next',
        breakpoints: true,
      });
      await writeFile(file, JSON.stringify(journal));
    },
  },
  Django: {
    next: (sql) => ({
      file: 'shop/migrations/0005_next.py',
      text: `from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("shop", "0004_find_open_orders")]
    operations = [migrations.RunSQL(${python(sql)})]
`,
    }),
  },
  Alembic: {
    next: (sql) => ({
      file: 'migrations/versions/5e1d3a94b0c7_next.py',
      text: `from alembic import op

revision = "5e1d3a94b0c7"
down_revision = "4d5a02f7c168"


def upgrade() -> None:
    op.execute(${python(sql)})
`,
    }),
  },
  Flyway: { next: (sql) => ({ file: 'migrations/V6__next.sql', text: `${sql};\n` }) },
  Knex: {
    next: (sql) => ({
      file: 'migrations/20260301_next.js',
      text: `export const up = (knex) => knex.raw(${JSON.stringify(sql)});\nexport const down = () => {};\n`,
    }),
  },
  Rails: {
    next: (sql) => ({
      file: 'db/migrate/20260301090000_next.rb',
      text: `class Next < ActiveRecord::Migration[6.1]\n  def up\n    execute ${JSON.stringify(sql)}\n  end\nend\n`,
    }),
  },
  goose: {
    next: (sql) => ({ file: 'migrations/20260301090000_next.sql', text: `-- +goose Up\n${sql};\n` }),
  },
} satisfies Record<string, RecipeRow>;

export type RecipeTool = keyof typeof ROWS;

interface RecipeProject {
  readonly folder: string;
  /** The environment of its commands on the database at `url`. */
  environment(url: string): Promise<NodeJS.ProcessEnv>;
  readonly command: readonly string[];
  /** Writes a migration that runs this SQL in the place of the one before. */
  write(sql: string): Promise<void>;
  remove(): Promise<void>;
}

/** @returns `{ missing }` with the reason if the tool cannot be had. */
async function recipeProject(tool: RecipeTool): Promise<RecipeProject | { missing: string }> {
  const row: RecipeRow = ROWS[tool];
  const copy = await copyOf(tool);
  if ('missing' in copy) return copy;
  const { folder } = copy;
  let isListed = false;
  return {
    ...copy,
    write: async (sql) => {
      const { file, text } = row.next(sql);
      await mkdir(path.dirname(path.join(folder, file)), { recursive: true });
      await writeFile(path.join(folder, file), text);
      if (!isListed) await row.listed?.(folder);
      isListed = true;
    },
  };
}

async function copyOf(tool: RecipeTool): Promise<Omit<RecipeProject, 'write'> | { missing: string }> {
  const id = tool.toLowerCase();
  if (id === 'knex' || id === 'drizzle') {
    const { command, environment } = project(id);
    const copy = await copyProject(id);
    return { ...copy, command, environment: async (url) => environment(url) };
  }
  const found = await findTool(id as ToolId);
  if ('missing' in found) return found;
  const copy: ToolCopy = await found.copy();
  return {
    folder: copy.folder,
    remove: copy.remove,
    command: found.command,
    environment: (url) => copy.configure(url),
  };
}

const HARMLESS = 'ALTER TABLE customers ADD COLUMN phone text';
const DROPPING = 'ALTER TABLE customers DROP COLUMN name';
/** More than a person would write again, and with statistics. */
const FILLED = `INSERT INTO customers (email, name) SELECT n || '@example.org', 'x' FROM generate_series(1, 2000) n; ANALYZE`;

/**
 * Does by copy and paste what `safemigrate init` shows and writes: the dump for CI, a profile, and the job, which must pass for a harmless
 * migration and fail for a dropped column whose values the profile alone knows.
 */
export function testRecipes(tools: readonly RecipeTool[], more: (run: RecipeRun) => Promise<void>): void {
  let server: Server;
  beforeAll(async () => {
    server = await ownServer(15);
  });
  afterAll(() => server?.stop());

  for (const tool of tools)
    test(`the recipe for CI, by copy and paste, with ${tool}`, { timeout: 300_000 }, async (context) => {
      const project = await recipeProject(tool);
      if ('missing' in project) return context.skip(String(skipReason(project.missing)));
      onTestFinished(() => project.remove());
      const { folder } = project;
      const name = tool.toLowerCase();
      const url = withDatabase(server.url, name);
      await withClient(server.url, (client) => client.query(`CREATE DATABASE ${name}`));
      const env = await project.environment(url);
      const migrated = await runProgram(project.command, { folder, env });
      expect(migrated.exitCode, migrated.stderr + migrated.stdout).toBe(0);
      await withClient(url, (client) => client.query(FILLED));

      // Where the URL is in .env, the lines read it from there.
      const outside = existsSync(path.join(folder, '.env')) ? {} : { DATABASE_URL: url };
      const pasted = async (lines: string) => {
        const result = await runLine(`set -e\n${lines}`, { folder, env: { ...env, ...outside } });
        expect(result.exitCode, `${lines}\n${result.stdout}${result.stderr}`).toBe(0);
        return result.stdout;
      };
      const [, shown = ''] = (await pasted('safemigrate init')).split(/^The dump for CI.*\n\n/m);
      await pasted(shown.replaceAll(/^ +/gm, ''));
      await pasted('safemigrate profile --window 0 --out production.profile.json');

      // tools/ci-jobs.test.ts installs; a job has no variable of the project's.
      const script = path.join(folder, 'safemigrate-ci.sh');
      const job = (await readFile(script, 'utf8')).replaceAll(/^(?:curl|echo|npm install).*\n/gm, '');
      await writeFile(script, job);
      const { PATH, PRISMA_QUERY_ENGINE_LIBRARY } = env;
      const run = () =>
        runLine('sh safemigrate-ci.sh', { folder, env: { PATH, PRISMA_QUERY_ENGINE_LIBRARY } });
      await project.write(HARMLESS);
      const green = await run();
      expect(green.exitCode, green.stdout + green.stderr).toBe(0);
      expect(green.stderr).toMatch(/PASSED/);
      await project.write(DROPPING);
      const red = await run();
      expect(red.exitCode, red.stdout + red.stderr).toBe(1);
      expect(red.stderr).toMatch(/DID NOT PASS: 1 error[\s\S]*COLUMN_DROPPED/);
      expect(red.stderr.replaceAll(/\s+/g, ' ')).toContain(
        'Data drops column customers.name: not known, no rows here',
      );
      await more({ tool, folder, run });
    });
}

export interface RecipeRun {
  readonly tool: RecipeTool;
  readonly folder: string;
  /** Runs the job. */
  run(): Promise<CliResult>;
}
