import { cp, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { plainEnvironment } from './cli.ts';
import { type Toolchain, toolchain } from './toolchains.ts';

export type ToolId =
  | 'prisma'
  | 'alembic'
  | 'django'
  | 'goose'
  | 'golang-migrate'
  | 'sqlx'
  | 'flyway'
  | 'liquibase'
  | 'rails';

/** A shop like those of projects.ts, whose tool does not come with `npm ci` at the root. */
interface Row {
  readonly toolchain: Toolchain;
  readonly command: string[];
  /** The same with one migration more, which fails half-way with SQLSTATE 23505. */
  readonly failing: string[];
  /** The command's own exit code then. */
  readonly failureExitCode: number;
  /** Where the tool keeps what it has done. */
  readonly journal: string;
  /** What the tool reads the connection from, in the way of its users. */
  readonly variables: (url: URL) => Record<string, string>;
  /** `.env`: the variables are written there, and are not in the environment. */
  readonly inDotenv?: boolean;
  /** The same as `command` with the connection in its arguments, and none in the variables. */
  readonly withArguments?: (url: URL) => string[];
  /** safemigrate's own options, which tell it the target. */
  readonly options: (url: URL) => string[];
  /** Variables that are about the tool itself. @param folder of the toolchain */
  readonly settings?: (folder: string) => Record<string, string>;
}

export const PYTHON: Toolchain = {
  pins: ['requirements.txt'],
  probe: ['python3', '-c', 'import sys, venv, ensurepip; print(sys.executable, sys.version)'],
  needs: 'python3 with venv (Debian: python3-venv)',
  install: [
    ['python3', '-m', 'venv', '.'],
    ['bin/pip', 'install', '--quiet', '--no-deps', '-r', 'requirements.txt'],
  ],
};

/** A program in Java, which is started as its own package would do it. */
function maven(program: string, main: string): Toolchain {
  const script = `#!/bin/sh\nexec java -cp "$(dirname "$0")/../lib/*" ${main} "$@"\n`;
  return {
    pins: ['pom.xml'],
    probe: ['sh', '-c', 'java -version && mvn --version'],
    needs: 'Java 17 or newer and Maven (Debian: default-jdk-headless, maven)',
    install: [
      ['mvn', '-q', '-B', 'dependency:copy-dependencies', '-DoutputDirectory=lib'],
      ['sh', '-c', `mkdir bin && printf %s '${script}' > bin/${program} && chmod +x bin/${program}`],
    ],
  };
}

const FLYWAY = maven('flyway', 'org.flywaydb.commandline.Main -skipCheckForUpdate');
const LIQUIBASE = maven('liquibase', 'liquibase.integration.commandline.LiquibaseCommandLine');

export const NPM: Toolchain = {
  pins: ['package.json', 'package-lock.json'],
  probe: ['npm', '--version'],
  needs: 'npm',
  // The engines' own scripts would download them.
  install: [
    ['npm', 'ci', '--ignore-scripts', '--no-audit', '--no-fund'],
    ['sh', '-c', ': > no-engine'],
  ],
};

/** Of the operating system: nothing is installed. */
const RUBY: Toolchain = {
  pins: [],
  probe: [
    'ruby',
    '-e',
    'require "rails"; require "active_record"; require "pg"; puts Rails.version, PG::VERSION',
  ],
  needs: 'Ruby with Rails and pg (Debian: ruby-railties, ruby-activerecord, ruby-pg)',
  install: [],
};

const DATABASES = 'azuresql clickhouse libsql mssql mysql sqlite3 vertica ydb';

const GOOSE: Toolchain = {
  pins: ['go.mod', 'go.sum'],
  probe: ['go', 'version'],
  needs: 'Go 1.26 or newer',
  install: [
    [
      'go',
      'build',
      `-tags=${DATABASES.replaceAll(/\w+/g, 'no_$&').replaceAll(' ', ',')}`,
      '-o=bin/goose',
      'github.com/pressly/goose/v3/cmd/goose',
    ],
  ],
};

const GOLANG_MIGRATE: Toolchain = {
  pins: ['go.mod', 'go.sum'],
  probe: ['go', 'version'],
  needs: 'Go 1.26 or newer',
  install: [
    ['go', 'build', '-tags=postgres', '-o=bin/migrate', 'github.com/golang-migrate/migrate/v4/cmd/migrate'],
  ],
};

const SQLX: Toolchain = {
  pins: ['Cargo.toml'],
  probe: ['cargo', '--version'],
  needs: 'Cargo 1.94 or newer',
  // Not optimised, and for PostgreSQL without TLS alone: that takes a third of the time.
  install: [
    [
      ...['cargo', 'install', '--quiet', '--root=.', '--target-dir=target', '--locked', '--debug'],
      ...['--no-default-features', '--features=postgres', 'sqlx-cli@0.9.0'],
    ],
    ['rm', '-r', 'target'],
  ],
  timeoutMs: 20 * 60_000,
};

const ROWS: Record<ToolId, Row> = {
  prisma: {
    toolchain: NPM,
    command: ['npx', 'prisma', 'migrate', 'deploy'],
    failing: ['npx', 'prisma', 'migrate', 'deploy', '--config', 'prisma.failing.config.ts'],
    failureExitCode: 1,
    journal: '_prisma_migrations',
    inDotenv: true,
    variables: ({ href }) => ({ DATABASE_URL: `${href}?schema=public`, DIRECT_URL: href }),
    options: () => [],
    settings: (folder) => ({
      // Where it is set, nothing is downloaded; the engine in JavaScript never reads it.
      PRISMA_QUERY_ENGINE_LIBRARY: path.join(folder, 'no-engine'),
      CHECKPOINT_DISABLE: '1',
    }),
  },
  alembic: {
    toolchain: PYTHON,
    command: ['alembic', 'upgrade', 'head'],
    failing: ['alembic', '-c', 'failing.ini', 'upgrade', 'head'],
    failureExitCode: 1,
    journal: 'alembic_version',
    variables: ({ href }) => ({ DATABASE_URL: href }),
    options: () => [],
  },
  django: {
    toolchain: PYTHON,
    command: ['python', 'manage.py', 'migrate'],
    failing: ['python', 'manage.py', 'migrate', '--settings', 'settings.with_newsletter'],
    failureExitCode: 1,
    journal: 'django_migrations',
    variables: (url) => ({
      DB_HOST: url.hostname,
      DB_PORT: url.port,
      DB_NAME: url.pathname.slice(1),
      DB_USER: decodeURIComponent(url.username),
      DB_PASSWORD: decodeURIComponent(url.password),
    }),
    options: ({ href }) => ['--url', href],
  },
  goose: {
    toolchain: GOOSE,
    command: ['goose', '-dir', 'migrations', 'up'],
    failing: ['goose', '-dir', 'failing', 'up'],
    failureExitCode: 1,
    journal: 'goose_db_version',
    variables: ({ href }) => ({ GOOSE_DRIVER: 'postgres', GOOSE_DBSTRING: href }),
    options: () => ['--url-env', 'GOOSE_DBSTRING'],
  },
  'golang-migrate': {
    toolchain: GOLANG_MIGRATE,
    command: ['sh', '-c', 'migrate -path migrations -database "$DATABASE_URL" up'],
    failing: ['sh', '-c', 'migrate -path failing -database "$DATABASE_URL" up'],
    failureExitCode: 1,
    journal: 'schema_migrations',
    variables: (url) => ({ DATABASE_URL: withoutTls(url) }),
    withArguments: (url) => ['migrate', '-path', 'migrations', '-database', withoutTls(url), 'up'],
    options: (url) => ['--url', withoutTls(url)],
  },
  sqlx: {
    toolchain: SQLX,
    command: ['sqlx', 'migrate', 'run'],
    failing: ['sqlx', 'migrate', 'run', '--source', 'failing'],
    failureExitCode: 1,
    journal: '_sqlx_migrations',
    variables: ({ href }) => ({ DATABASE_URL: href }),
    options: () => [],
  },
  flyway: {
    toolchain: FLYWAY,
    command: ['flyway', 'migrate'],
    failing: ['flyway', '-locations=filesystem:migrations,filesystem:failing', 'migrate'],
    failureExitCode: 1,
    journal: 'flyway_schema_history',
    variables: (url) => ({
      FLYWAY_URL: jdbcUrl(url),
      FLYWAY_USER: decodeURIComponent(url.username),
      FLYWAY_PASSWORD: decodeURIComponent(url.password),
    }),
    options: ({ href }) => ['--url', href],
    withArguments: (url) => [
      'flyway',
      `-url=${jdbcUrl(url)}`,
      `-user=${decodeURIComponent(url.username)}`,
      `-password=${decodeURIComponent(url.password)}`,
      'migrate',
    ],
    settings: () => ({ REDGATE_DISABLE_TELEMETRY: 'true' }),
  },
  liquibase: {
    toolchain: LIQUIBASE,
    command: ['liquibase', 'update'],
    failing: ['liquibase', 'update', '--changelog-file=failing.xml'],
    failureExitCode: 1,
    journal: 'databasechangelog',
    variables: (url) => ({
      LIQUIBASE_COMMAND_URL: jdbcUrl(url),
      LIQUIBASE_COMMAND_USERNAME: decodeURIComponent(url.username),
      LIQUIBASE_COMMAND_PASSWORD: decodeURIComponent(url.password),
    }),
    withArguments: (url) => [
      'liquibase',
      'update',
      `--url=${jdbcUrl(url)}`,
      `--username=${decodeURIComponent(url.username)}`,
      '--password',
      decodeURIComponent(url.password),
    ],
    options: ({ href }) => ['--url', href],
  },
  rails: {
    toolchain: RUBY,
    command: ['bin/rails', 'db:migrate'],
    failing: ['bin/rails', 'db:migrate', 'RAILS_ENV=failing'],
    failureExitCode: 1,
    journal: 'schema_migrations',
    variables: ({ href }) => ({ DATABASE_URL: href }),
    options: () => [],
    settings: () => ({ RAILS_ENV: 'production' }),
  },
};

/** The commands of the tools as one types them. */
export const TOOL_IDS = Object.keys(ROWS) as readonly ToolId[];

export const TOOL_COMMANDS: readonly string[] = Object.values(ROWS).map(({ command }) =>
  command[0] === 'sh' ? (command[2] ?? '') : command.join(' '),
);

export interface Tool extends Pick<Row, 'command' | 'failing' | 'failureExitCode' | 'journal'> {
  readonly id: ToolId;
  /** What safemigrate is told about the target at `url`. */
  options(url: string): string[];
  /** Its command with the connection in arguments; undefined where that is not its way. */
  readonly withArguments: ((url: string) => string[]) | undefined;
  /** A copy to run the commands in. `remove()` takes it away. */
  copy(): Promise<ToolCopy>;
}

export interface ToolCopy {
  readonly folder: string;
  /** Makes the copy a project of the database at `url`. @returns the environment of its commands. */
  configure(url: string, where?: 'variables' | 'arguments'): Promise<NodeJS.ProcessEnv>;
  remove(): Promise<void>;
}

/** Installs the tool if need be, which may take minutes. @returns `{ missing }` with the reason when it cannot be had. */
export async function findTool(id: ToolId): Promise<Tool | { missing: string }> {
  const row = ROWS[id];
  const project = fileURLToPath(new URL(`../../fixtures/projects/${id}`, import.meta.url));
  const found = await toolchain(id, project, row.toolchain);
  if ('missing' in found) return found;
  const { withArguments: inArguments } = row;
  return {
    ...row,
    id,
    options: (url) => row.options(new URL(url)),
    withArguments: inArguments && ((url) => inArguments(new URL(url))),
    copy: () => copyTool(row, project, found.folder),
  };
}

async function copyTool(row: Row, project: string, installed: string): Promise<ToolCopy> {
  const folder = await mkdtemp(path.join(await realpath(tmpdir()), `project-${path.basename(project)}-`));
  await cp(project, folder, { recursive: true, verbatimSymlinks: true });
  if (row.toolchain === NPM)
    await symlink(path.join(installed, 'node_modules'), path.join(folder, 'node_modules'));
  return {
    folder,
    remove: () => rm(folder, { recursive: true, force: true }),
    configure: async (url, where = 'variables') => {
      const variables = row.variables(new URL(url));
      if (row.inDotenv) await writeFile(path.join(folder, '.env'), dotenv(variables));
      const plain = plainEnvironment();
      return {
        ...plain,
        PATH: [path.join(installed, 'bin'), plain.PATH].join(path.delimiter),
        ...row.settings?.(installed),
        ...(row.inDotenv || where === 'arguments' ? {} : variables),
      };
    },
  };
}

/** Go's driver asks for TLS unless the URL says otherwise. */
function withoutTls({ href }: URL): string {
  const url = new URL(href);
  url.searchParams.set('sslmode', 'disable');
  return url.href;
}

function jdbcUrl({ host, pathname }: URL): string {
  return `jdbc:postgresql://${host}${pathname}`;
}

function dotenv(variables: Record<string, string>): string {
  return Object.entries(variables)
    .map(([name, value]) => `${name}="${value}"\n`)
    .join('');
}
