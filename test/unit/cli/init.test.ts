import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, onTestFinished, test } from 'vitest';
import { parse } from 'yaml';
import { detectTools } from '../../../src/cli/init/detect-tool.ts';
import { firstCommand, planInit } from '../../../src/cli/init/init-files.ts';
import type { ProjectFiles } from '../../../src/cli/init/project-files.ts';

const FIXTURES = fileURLToPath(new URL('../../../fixtures/projects', import.meta.url));

function filesIn(folder: string): ProjectFiles {
  const at = (file: string) => path.join(folder, file);
  const isFolder = (file: string) => existsSync(at(file)) && statSync(at(file)).isDirectory();
  return {
    exists: (file) => existsSync(at(file)),
    text: (file) => (existsSync(at(file)) && !isFolder(file) ? readFileSync(at(file), 'utf8') : ''),
    list: (file) => (isFolder(file) ? readdirSync(at(file)).sort() : []),
  };
}

type Layout = Readonly<Record<string, string>>;

/** A project on disk that has nothing but these files. */
function filesOf(files: Layout): ProjectFiles {
  const made = mkdtempSync(path.join(tmpdir(), 'safemigrate-init-'));
  onTestFinished(() => rmSync(made, { recursive: true }));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(path.join(made, path.dirname(name)), { recursive: true });
    writeFileSync(path.join(made, name), text);
  }
  return filesIn(made);
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
    [
      'django',
      'Django',
      'safemigrate --url "$DATABASE_URL" -- env DB_HOST={safemigrate:host} DB_PORT={safemigrate:port} DB_NAME={safemigrate:database} ' +
        'DB_USER={safemigrate:user} DB_PASSWORD={safemigrate:password} python manage.py migrate',
    ],
    ['alembic', 'Alembic', 'safemigrate -- alembic upgrade head'],
    ['goose', 'goose', 'safemigrate -- env GOOSE_DRIVER=postgres goose -dir migrations up'],
    [
      'golang-migrate',
      'golang-migrate',
      'safemigrate -- migrate -path migrations -database {safemigrate:url} up',
    ],
    ['sqlx', 'sqlx', 'safemigrate -- sqlx migrate run'],
    ['flyway', 'Flyway', 'safemigrate --url "$DATABASE_URL" -- flyway "-url={safemigrate:jdbc-url}" migrate'],
    [
      'liquibase',
      'Liquibase',
      'safemigrate --url "$DATABASE_URL" -- liquibase update "--url={safemigrate:jdbc-url}"',
    ],
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

/** Made after the layouts of public projects: what they have, the tool, its command, the filter of the CI job, the variable. */
const LAYOUTS: readonly [what: string, Layout, Expected][] = [
  [
    'Django with the applications in a package',
    {
      'manage.py': 'import django',
      'shop/orders/migrations/__init__.py': '',
      'package.json': '{"dependencies":{"react":"19"}}',
    },
    { name: 'Django', command: 'python manage.py migrate', folder: '**/migrations' },
  ],
  [
    'Django one level down',
    { 'hub/manage.py': 'import django', 'hub/dcim/migrations/__init__.py': '', 'requirements.txt': 'Django' },
    { name: 'Django', command: "sh -c 'cd hub && python manage.py migrate'", folder: 'hub/**/migrations' },
  ],
  [
    'Prisma in a package of a monorepo, with a direct URL and a script at the top',
    {
      'package.json':
        '{"scripts":{"dev":"turbo dev","db:deploy":"npm run env --workspace=db -- prisma migrate deploy"}}',
      'package-lock.json': '',
      'packages/db/package.json': '{"devDependencies":{"prisma":"6"}}',
      'packages/db/schema.prisma':
        'datasource db {\n url = env("POOL_URL")\n directUrl = env("DIRECT_URL")\n}',
      'packages/db/migrations/1_first/migration.sql': '',
    },
    {
      name: 'Prisma',
      command: 'npm run db:deploy',
      folder: 'packages/db/migrations',
      urlEnv: 'DIRECT_URL',
    },
  ],
  [
    'Prisma in a package, with pnpm and no script',
    {
      'package.json': '{}',
      'pnpm-lock.yaml': '',
      'packages/database/prisma/schema.prisma': 'datasource db { url = env("DATABASE_URL") }',
      'packages/database/prisma/migrations/1/migration.sql': '',
    },
    {
      name: 'Prisma',
      command: "sh -c 'cd packages/database && pnpm exec prisma migrate deploy'",
      folder: 'packages/database/prisma/migrations',
    },
  ],
  [
    'Prisma with the URL in prisma.config.ts, and a script that does more than migrate',
    {
      'package.json':
        '{"devDependencies":{"prisma":"7"},"scripts":{"start":"prisma migrate deploy && node ."}}',
      'prisma/schema.prisma': 'datasource db { provider = "postgresql" }',
      'prisma.config.ts': 'export default { datasource: { url: process.env.SHOP_URL } }',
    },
    { name: 'Prisma', command: 'npx prisma migrate deploy', folder: undefined, urlEnv: 'SHOP_URL' },
  ],
  [
    'Prisma with the configuration that version 7 writes',
    {
      'package.json': '{"devDependencies":{"prisma":"7"}}',
      'prisma/schema.prisma': 'datasource db { provider = "postgresql" }',
      'prisma7.config.ts': 'export default defineConfig({ datasource: { url: process.env["SHOP_URL"] } })',
    },
    { name: 'Prisma', command: 'npx prisma migrate deploy', folder: undefined, urlEnv: 'SHOP_URL' },
  ],
  [
    'Prisma with a script of its own name',
    {
      'package.json':
        '{"dependencies":{"@prisma/client":"6"},"scripts":{"update-db":"prisma migrate deploy"}}',
      'yarn.lock': '',
      'prisma/schema.prisma': '',
      'prisma/migrations/01_init/migration.sql': '',
    },
    { name: 'Prisma', command: 'yarn run update-db', folder: 'prisma/migrations' },
  ],
  [
    'Knex whose knexfile lies elsewhere, with a script that knows it',
    {
      'package.json':
        '{"dependencies":{"knex":"3"},"scripts":{"db:migrate":"knex migrate:latest --cwd db","db:seed":"knex seed:run"}}',
      'db/knexfile.js': '',
      'db/migrations/1_init.js': '',
    },
    { name: 'Knex', command: 'npm run db:migrate', folder: 'db/migrations' },
  ],
  [
    'Knex in the server of two programs',
    {
      'package.json': '{"scripts":{"start":"concurrently a b"}}',
      'server/package.json':
        '{"dependencies":{"knex":"3"},"scripts":{"db:migrate":"knex migrate:latest --cwd db"}}',
      'server/db/migrations/1_init.js': '',
    },
    { name: 'Knex', command: "sh -c 'cd server && npm run db:migrate'", folder: 'server/db/migrations' },
  ],
  [
    'Sequelize with a .sequelizerc',
    {
      '.sequelizerc': "module.exports = { 'migrations-path': path.resolve('server', 'migrations') }",
      'package.json':
        '{"devDependencies":{"sequelize-cli":"6"},"scripts":{"db:migrate":"sequelize db:migrate","db:rollback":"sequelize db:migrate:undo"}}',
      'yarn.lock': '',
      'server/migrations/1_init.js': '',
    },
    { name: 'Sequelize', command: 'yarn run db:migrate', folder: 'server/migrations' },
  ],
  [
    'db-migrate',
    {
      'database.json': '{}',
      'package.json': '{"dependencies":{"db-migrate":"0.11"},"scripts":{"db-migrate":"db-migrate up"}}',
      'migrations/1_init.js': '',
    },
    { name: 'db-migrate', command: 'npm run db-migrate', folder: 'migrations' },
  ],
  [
    'Diesel',
    {
      'diesel.toml': '[migrations_directory]\ndir = "migrations"\n',
      'Cargo.toml': '[dependencies]\ndiesel = "2"\n',
      'migrations/1_init/up.sql': '',
    },
    { name: 'Diesel', command: 'diesel migration run', folder: 'migrations' },
  ],
  [
    'sqlx whose migrations the program holds',
    {
      'Cargo.toml': '[workspace.dependencies.sqlx]\nversion = "0.8"\n',
      'crates/storage/src/lib.rs': 'pub static MIGRATOR: Migrator = sqlx::migrate!();',
      'crates/storage/migrations/1_init.sql': '',
    },
    { name: 'sqlx', command: 'your-program migrate', folder: 'crates/storage/migrations', isLibrary: true },
  ],
  [
    'sqlx by its command line',
    {
      'Cargo.toml': '[dependencies]\nsqlx = "0.8"\n',
      'src/main.rs': 'fn main() {}',
      'migrations/1_init.sql': '',
    },
    { name: 'sqlx', command: 'sqlx migrate run', folder: 'migrations' },
  ],
  [
    'goose as a library',
    {
      'go.mod': 'require github.com/pressly/goose/v3 v3.24.0\n',
      'pkg/storage/migrate.go': 'import "github.com/pressly/goose/v3"\n',
      'assets/migrations/postgres/1_init.sql': '-- +goose Up\n',
    },
    { name: 'goose', command: 'your-program migrate', folder: 'assets/migrations', isLibrary: true },
  ],
  [
    'goose by its command line, in a folder of its own',
    { 'go.mod': 'module shop\n', 'main.go': 'package main', 'sql/migrations/1_init.sql': '-- +goose Up\n' },
    {
      name: 'goose',
      command: 'env GOOSE_DRIVER=postgres goose -dir sql/migrations up',
      folder: 'sql/migrations',
      urlEnv: 'GOOSE_DBSTRING',
    },
  ],
  [
    'pop, whose files are named like those of golang-migrate',
    {
      'go.mod': 'require github.com/gobuffalo/pop/v6 v6.1.1\n',
      'cmd/migrate_cmd.go': 'import "github.com/gobuffalo/pop/v6"\n',
      'migrations/1_init.up.sql': '',
    },
    { name: 'pop', command: 'your-program migrate', folder: 'migrations', isLibrary: true },
  ],
  [
    'golang-migrate as a library',
    {
      'go.mod': 'require github.com/golang-migrate/migrate/v4 v4.18.0\n',
      'internal/db/db.go': 'import "github.com/golang-migrate/migrate/v4"\n',
      'migrations/1_init.up.sql': '',
    },
    { name: 'golang-migrate', command: 'your-program migrate', folder: 'migrations', isLibrary: true },
  ],
  [
    'Flyway in an application that migrates when it starts',
    {
      'build.gradle': "implementation 'org.flywaydb:flyway-core:10'",
      'src/main/resources/db/migration/V1__init.sql': '',
    },
    {
      name: 'Flyway',
      command: 'your-program migrate',
      folder: 'src/main/resources/db/migration',
      isLibrary: true,
    },
  ],
  [
    "Flyway by Gradle's plugin",
    {
      'build.gradle.kts': 'plugins { id("org.flywaydb.flyway") version "10" }',
      'src/main/resources/db/migration/V1__init.sql': '',
    },
    {
      name: 'Flyway',
      command: './gradlew flywayMigrate "-Pflyway.url={safemigrate:jdbc-url}"',
      folder: 'src/main/resources/db/migration',
    },
  ],
  [
    'Aerich',
    { 'pyproject.toml': '[tool.aerich]\nlocation = "./migrations"\n', 'migrations/models/0_init.py': '' },
    { name: 'Aerich', command: 'aerich upgrade', folder: 'migrations' },
  ],
  [
    'Alembic in the backend, with its own place of scripts',
    {
      'backend/alembic.ini': '[alembic]\nscript_location = app/alembic\n',
      'backend/app/alembic/versions/1_init.py': '',
      'frontend/package.json': '{"dependencies":{"react":"19"}}',
    },
    {
      name: 'Alembic',
      command: "sh -c 'cd backend && alembic upgrade head'",
      folder: 'backend/app/alembic/versions',
    },
  ],
  [
    'Ecto',
    {
      'mix.exs': '{:ecto_sql, "~> 3.12"}',
      'config/runtime.exs': 'System.get_env("DATABASE_URL")',
      'priv/repo/migrations/1_init.exs': '',
    },
    { name: 'Ecto', command: 'mix ecto.migrate', folder: 'priv/repo/migrations' },
  ],
];

interface Expected {
  readonly name: string;
  readonly command: string;
  readonly folder: string | undefined;
  readonly urlEnv?: string;
  readonly isLibrary?: boolean;
}

describe('the layout of a project is understood', () => {
  test.each(LAYOUTS)('%s', (_, files, expected) => {
    const project = filesOf(files);
    const [tool] = detectTools(project);
    expect(tool).toMatchObject({ urlEnv: 'DATABASE_URL', isLibrary: false, ...expected });
    if (!tool?.folder) return;
    // A filter that names a folder which does not exist never starts the job.
    const [top = ''] = tool.folder.split('/**');
    expect(top === '**/migrations' || project.list(top).length > 0).toBe(true);
  });

  test('a library that only prepares queries, and a client of a tool without its schema, are no migration tool', () => {
    const files = {
      'package.json': '{"dependencies":{"@prisma/client":"6","pg":"8"}}',
      'go.mod': 'module x\n',
    };
    expect(detectTools(filesOf(files))).toEqual([]);
  });
});

describe('what is written', () => {
  const tool = () => {
    const [found] = detectTools(filesIn(path.join(FIXTURES, 'goose')));
    if (!found) throw new Error('goose is recognised');
    return found;
  };
  const named = (files: Layout) => planInit(tool(), filesOf(files)).files.map(({ file }) => file);
  const CONFIG = 'safemigrate.config.json';

  test('is a configuration that every subcommand can read, with the variable of the tool', () => {
    const [config] = planInit(tool(), filesOf({})).files;
    expect(config?.file).toBe(CONFIG);
    expect(JSON.parse(config?.text ?? '')).toEqual({ urlEnv: 'GOOSE_DBSTRING', failOn: 'error' });
  });

  test('is a workflow if the project is on GitHub, which begins with the installation of its packages', () => {
    const remote = { '.git/config': '[remote "origin"]\n\turl = git@github.com:a/b.git' };
    const { files, notes } = planInit(tool(), filesOf({ ...remote, 'pnpm-lock.yaml': '' }));
    expect(files.map(({ file }) => file)).toEqual([CONFIG, '.github/workflows/safemigrate.yml']);
    expect(notes).toEqual([]);
    const [, workflow] = files;
    expect(workflow?.text).toContain("paths: ['migrations/**']");
    expect(workflow?.text).toContain('- run: pnpm install --frozen-lockfile');
    expect(workflow?.text).toMatch(/^ {12}-- env GOOSE_DRIVER=postgres goose -dir migrations up$/m);
    expect(parse(workflow?.text ?? '').jobs.rehearse.env).toEqual({ SAFEMIGRATE_DUMP: 'test/dump.sql' });
    expect(planInit({ ...tool(), folder: undefined }, filesOf(remote)).files[1]?.text).not.toContain(
      'paths:',
    );
  });

  test("is GitLab's job if the project is there, and what its pipeline has to include is said", () => {
    const remote = { '.git/config': '[remote "origin"]\n\turl = https://gitlab.example.org/a/b.git' };
    expect(named(remote)).toEqual([CONFIG, '.gitlab/safemigrate.yml', '.gitlab-ci.yml']);
    const quoted = { ...tool(), command: "sh -c 'cd db && goose up'" };
    const { files, notes } = planInit(quoted, filesOf({ '.gitlab-ci.yml': 'stages: [test]' }));
    expect(files.map(({ file }) => file)).toEqual([CONFIG, '.gitlab/safemigrate.yml']);
    expect(parse(files[1]?.text ?? '').safemigrate.script).toContainEqual(
      expect.stringContaining("-- sh -c 'cd db && goose up' || code=$?"),
    );
    expect(notes).toEqual(['Add to .gitlab-ci.yml: include: [{ local: .gitlab/safemigrate.yml }]']);
  });

  test('is a script that any CI runs elsewhere, with a note on the remote', () => {
    const { files, notes } = planInit(tool(), filesOf({}));
    expect(files.map(({ file }) => file)).toEqual([CONFIG, 'safemigrate-ci.sh']);
    expect(files[1]?.text).toMatch(/^ {2}-- env GOOSE_DRIVER=postgres goose -dir migrations up$/m);
    // Also where a job says `sh safemigrate-ci.sh`, nothing is installed whose checksum is wrong.
    expect(files[1]?.text).toMatch(/^set -e$[\s\S]*sha256sum --check/m);
    expect(notes).toEqual(['The repository has no remote. Run safemigrate-ci.sh in its CI.']);
    const elsewhere = { '.git/config': '\turl = https://git.example.org/a.git' };
    expect(planInit(tool(), filesOf(elsewhere)).notes).toEqual([
      expect.stringContaining('is on neither GitHub nor GitLab: https://git.example.org/a.git'),
    ]);
  });

  test.each([
    ['prisma', ['*._prisma_migrations'], '"\x24{DIRECT_URL%%\\?*}"'],
    ['drizzle', ['*.__drizzle_migrations'], '"$DATABASE_URL"'],
    ['django', ['*.django_migrations', '*.django_content_type', '*.auth_permission'], '"$DATABASE_URL"'],
    ['alembic', ['*.alembic_version'], '"postgresql://\x24{DATABASE_URL#*://}"'],
    ['flyway', ['*.flyway_schema_history'], '"$DATABASE_URL"'],
    ['knex', ['*.knex_migrations', '*.knex_migrations_lock'], '"$DATABASE_URL"'],
    ['goose', ['*.goose_db_version'], '"$GOOSE_DBSTRING"'],
  ])(
    'says in the job for %s how its dump is made, with the rows of its own tables',
    (folder, tables, url) => {
      const [found] = detectTools(filesIn(path.join(FIXTURES, folder)));
      if (!found) throw new Error(`${folder} is recognised`);
      const chosen = tables.map((table) => `--table='${table}'`).join(' ');
      const remote = { '.git/config': 'url = https://gitlab.example.org/a.git' };
      for (const files of [{}, remote, { '.github/dependabot.yml': '' }]) {
        const texts = planInit(found, filesOf(files)).files.map(({ text }) =>
          text.replaceAll(/^ *# */gm, ''),
        );
        expect(texts.join('')).toContain(
          `pg_dump --schema-only ${url} > test/dump.sql\npg_dump --data-only --inserts ${chosen} ${url} >> test/dump.sql\n`,
        );
      }
    },
  );

  test('has a placeholder for a command that the files do not tell, and says so', () => {
    const { files, notes } = planInit(
      { ...tool(), isLibrary: true, command: 'your-program migrate' },
      filesOf({ '.github/dependabot.yml': '' }),
    );
    expect(files[1]?.text).toMatch(/own program runs goose; .*replace[\s\S]*-- your-program migrate/);
    expect(notes).toEqual([expect.stringContaining("The project's own program runs goose")]);
  });
});

describe('what the command needs besides the database is allowed in the configuration', () => {
  const planOf = (scripts: Record<string, string>) => {
    const project = filesOf({
      'package.json': JSON.stringify({ scripts, dependencies: { knex: '3' } }),
      'knexfile.js': '',
    });
    const [tool] = detectTools(project);
    if (!tool) throw new Error('no tool');
    const { files, notes } = planInit(tool, project);
    return { config: JSON.parse(files[0]?.text ?? ''), notes: notes.join() };
  };

  test('by its address, where that is the same for everybody', () => {
    const { config } = planOf({ migrate: 'doppler run -- knex migrate:latest' });
    expect(config.permit).toEqual(['api.doppler.com:443']);
  });

  test('by the user elsewhere, who is told what to add', () => {
    const { config, notes } = planOf({ migrate: 'VAULT_TOKEN=$(vault read -field=x y) knex migrate:latest' });
    expect(config).not.toHaveProperty('permit');
    expect(notes).toContain('Add to permit in the configuration, for Vault: host and port of VAULT_ADDR');
  });

  test('and nothing is said if nothing is needed', () => {
    const { config, notes } = planOf({ migrate: 'knex migrate:latest' });
    expect(config).not.toHaveProperty('permit');
    expect(notes).not.toContain('permit');
  });
});
