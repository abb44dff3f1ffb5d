import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, test } from 'vitest';
import { detectTools, type ProjectFiles } from '../../../src/cli/init/detect-tool.ts';
import { firstCommand, gitlabLines, initFiles } from '../../../src/cli/init/init-files.ts';

const FIXTURES = fileURLToPath(new URL('../../../fixtures/projects/', import.meta.url));

function filesIn(folder: string): ProjectFiles {
  const at = (file: string) => path.join(folder, file);
  return {
    exists: (file) => existsSync(at(file)),
    text: (file) => (existsSync(at(file)) ? readFileSync(at(file), 'utf8') : ''),
    list: (file) => (existsSync(at(file)) ? readdirSync(at(file)) : []),
  };
}

/** A project that has nothing but these files. */
function filesOf(files: Record<string, string>): ProjectFiles {
  return {
    exists: (file) => file in files,
    text: (file) => files[file] ?? '',
    list: (folder) =>
      Object.keys(files)
        .filter((file) => path.dirname(file) === folder)
        .map((file) => path.basename(file)),
  };
}

describe('the tool of a project is recognised', () => {
  test.each([
    ['prisma', 'Prisma', 'safemigrate -- npx prisma migrate deploy'],
    ['drizzle', 'Drizzle', 'safemigrate -- npx drizzle-kit migrate'],
    ['knex', 'Knex', 'safemigrate -- npx knex migrate:latest'],
    ['typeorm', 'TypeORM', 'safemigrate -- npx typeorm migration:run -d data-source.js'],
    ['node-pg-migrate', 'node-pg-migrate', 'safemigrate -- npx node-pg-migrate up'],
    ['dbmate', 'dbmate', 'safemigrate -- dbmate --no-dump-schema migrate'],
    ['psql', 'a shell script', 'safemigrate -- sh migrate.sh'],
    ['django', 'Django', 'safemigrate --url "$DATABASE_URL" -- python manage.py migrate'],
    ['alembic', 'Alembic', 'safemigrate -- alembic upgrade head'],
    ['goose', 'goose', 'safemigrate -- goose -dir migrations up'],
    [
      'golang-migrate',
      'golang-migrate',
      'safemigrate -- migrate -path migrations -database {safemigrate:url} up',
    ],
    ['sqlx', 'sqlx', 'safemigrate -- sqlx migrate run'],
    ['flyway', 'Flyway', 'safemigrate --url "$DATABASE_URL" -- flyway migrate'],
    ['liquibase', 'Liquibase', 'safemigrate --url "$DATABASE_URL" -- liquibase update'],
  ])('in fixtures/projects/%s: %s', (folder, name, command) => {
    const [tool] = detectTools(filesIn(path.join(FIXTURES, folder)));
    expect(tool).toMatchObject({ name });
    expect(tool && firstCommand(tool)).toBe(command);
  });

  test.each<[string, Record<string, string>, string]>([
    [
      'TypeORM',
      { 'package.json': '{"dependencies":{"typeorm":"0.3.0"}}', 'src/data-source.ts': '' },
      'safemigrate -- npx typeorm-ts-node-commonjs migration:run -d src/data-source.ts',
    ],
    [
      'TypeORM',
      { 'package.json': '{"type":"module","dependencies":{"typeorm":"0.3.0"}}', 'data-source.ts': '' },
      'safemigrate -- npx typeorm-ts-node-esm migration:run -d data-source.ts',
    ],
    ['Rails', { Gemfile: 'source "x"\ngem "rails", "~> 8.0"\n' }, 'safemigrate -- bin/rails db:migrate'],
    [
      'golang-migrate',
      { 'migrations/000001_init.up.sql': '', 'migrations/000001_init.down.sql': '' },
      'safemigrate -- migrate -path migrations -database {safemigrate:url} up',
    ],
  ])('by its files: %s', (name, files, command) => {
    const [tool] = detectTools(filesOf(files));
    expect(tool).toMatchObject({ name });
    expect(tool && firstCommand(tool)).toBe(command);
  });

  test('not where there is none, and a broken package.json is none', () => {
    expect(detectTools(filesOf({ 'README.md': 'knex', 'package.json': '{' }))).toEqual([]);
  });
});

describe('what is written', () => {
  const tool = () => {
    const [found] = detectTools(filesIn(path.join(FIXTURES, 'goose')));
    if (!found) throw new Error('goose is recognised');
    return found;
  };

  let folder: string | undefined;
  afterEach(() => {
    if (folder) rmSync(folder, { recursive: true });
    folder = undefined;
  });

  test('is a configuration that can be loaded, with the variable of the tool', async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'safemigrate-init-'));
    const [config] = initFiles(tool(), filesOf({}));
    const file = path.join(folder, config?.file ?? '');
    writeFileSync(file, config?.text ?? '');
    const { default: options } = await import(/* @vite-ignore */ file);
    expect(options).toEqual({ urlEnv: 'GOOSE_DBSTRING', failOn: 'error' });
  });

  test('is a workflow if the project is on GitHub, and nothing for others', () => {
    expect(initFiles(tool(), filesOf({})).map(({ file }) => file)).toEqual(['safemigrate.config.mjs']);
    const [, workflow] = initFiles(tool(), filesOf({ '.git/config': 'url = git@github.com:a/b.git' }));
    expect(workflow?.file).toBe('.github/workflows/safemigrate.yml');
    expect(workflow?.text).toContain("paths: ['migrations/**']");
    expect(workflow?.text).toMatch(/^ {10}command: goose -dir migrations up$/m);
    expect(gitlabLines(tool(), filesOf({}))).toBeUndefined();
    expect(gitlabLines(tool(), filesOf({ '.gitlab-ci.yml': '' }))).toContain(
      "COMMAND_LINE: 'goose -dir migrations up'",
    );
  });
});
