import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Toolchain } from './toolchains.ts';
import { NPM, PYTHON } from './tools.ts';

/** Where the programs of `fixtures/drivers` lie, and what has to be installed for them. */
export interface DriverLanguage {
  readonly folder: string;
  readonly toolchain: Toolchain;
  /** What the toolchain is installed as. */
  readonly installedAs: string;
  /** Where the programs are copied to in the folder of a run: modules of two languages do not fit into one. */
  readonly place: string;
}

const language = (name: string, toolchain: Toolchain): DriverLanguage => ({
  folder: fileURLToPath(new URL(`../../fixtures/drivers/${name}`, import.meta.url)),
  toolchain,
  installedAs: `drivers-${name}`,
  place: '.',
});

export const LANGUAGES = {
  python: language('python', PYTHON),
  node: language('node', {
    pins: ['package.json', 'package-lock.json'],
    probe: ['npm', '--version'],
    needs: 'npm',
    install: [['npm', 'ci', '--ignore-scripts', '--no-audit', '--no-fund']],
  }),
  go: language('go', {
    pins: ['go.mod', 'go.sum', 'main.go', path.join('oracle', 'main.go')],
    probe: ['go', 'version'],
    needs: 'Go 1.26 or newer',
    install: [
      ['go', 'build', '-o=bin/migrate', '.'],
      ['go', 'build', '-o=bin/oracle', './oracle'],
    ],
  }),
  jdbc: language('jdbc', {
    pins: ['pom.xml', 'Migrate.java', 'Oracle.java'],
    probe: ['sh', '-c', 'javac -version && mvn --version'],
    needs: 'Java 17 or newer and Maven (Debian: default-jdk-headless, maven)',
    install: [
      ['mvn', '-q', '-B', 'dependency:copy-dependencies', '-DoutputDirectory=lib'],
      ['javac', '-d', 'classes', 'Migrate.java', 'Oracle.java'],
    ],
  }),
  rust: language('rust', {
    pins: [
      'Cargo.toml',
      'Cargo.lock',
      ...['main.rs', 'steps.rs', 'bin/oracle.rs', 'bin/oracle-sqlx.rs'].map((file) => path.join('src', file)),
    ],
    probe: ['cargo', '--version'],
    needs: 'Cargo 1.94 or newer',
    install: [
      ['cargo', 'build', '--quiet', '--locked', '--target-dir=target'],
      [
        'sh',
        '-c',
        'mkdir bin && cd target/debug && mv migrate oracle oracle-sqlx ../../bin && cd ../.. && rm -r target',
      ],
    ],
    timeoutMs: 20 * 60_000,
  }),
  /** The project, since its engine needs a configuration. */
  prisma: {
    folder: fileURLToPath(new URL('../../fixtures/projects/prisma', import.meta.url)),
    toolchain: NPM,
    installedAs: 'prisma',
    place: 'prisma',
  },
} as const satisfies Record<string, DriverLanguage>;

export interface DriverProgram {
  readonly name: string;
  readonly language: keyof typeof LANGUAGES;
  /** @param installed folder of the toolchain */
  readonly command: (installed: string) => string[];
  readonly variables: (url: URL) => Record<string, string>;
  /** safemigrate is told the target by `--url`, and the command by its variables alone. */
  readonly apart?: boolean;
}

const inUrl =
  (scheme: string, query = '') =>
  (url: URL) => ({ DATABASE_URL: url.href.replace(/^postgres(ql)?:/, `${scheme}:`) + query });

const python = (name: string, scheme = 'postgresql', program = name): DriverProgram => ({
  name: program === name ? name : `${program} over ${scheme}`,
  language: 'python',
  command: (installed) => [path.join(installed, 'bin/python'), 'migrate.py', program],
  variables: inUrl(scheme),
});

const node = (name: string, program: string): DriverProgram => ({
  name,
  language: 'node',
  command: () => [process.execPath, 'migrate.js', program],
  variables: inUrl('postgresql'),
});

const go = (name: string, query = ''): DriverProgram => ({
  name,
  language: 'go',
  command: (installed) => [path.join(installed, 'bin/migrate'), name],
  variables: inUrl('postgres', query),
});

/** A program of the folder `jdbc`. */
export const JAVA = (installed: string, program = 'Migrate') => [
  'java',
  '-cp',
  `${path.join(installed, 'lib/*')}:${path.join(installed, 'classes')}`,
  program,
];

const jdbcUrl = (url: URL) => `jdbc:postgresql://${url.host}${url.pathname}`;
const part = (text: string) => decodeURIComponent(text);

export const DRIVER_PROGRAMS: readonly DriverProgram[] = [
  python('asyncpg', 'postgresql+asyncpg', 'sqlalchemy_asyncpg'),
  python('pg8000', 'postgresql+pg8000', 'sqlalchemy'),
  python('psycopg2', 'postgresql+psycopg2', 'sqlalchemy'),
  python('psycopg', 'postgresql+psycopg', 'sqlalchemy'),
  python('pg8000'),
  python('psycopg2'),
  python('psycopg'),
  python('peewee'),
  python('tortoise', 'asyncpg', 'tortoise'),
  python('tortoise', 'postgres', 'tortoise'),
  python('aerich', 'asyncpg', 'aerich'),
  node('pg', 'pg'),
  node('a pool of pg', 'pool'),
  node('postgres.js', 'postgres'),
  go('pgx'),
  go('pq', '?sslmode=disable'),
  {
    name: 'JDBC with its login apart',
    language: 'jdbc',
    command: (installed) => JAVA(installed),
    variables: (url) => ({
      JDBC_URL: jdbcUrl(url),
      JDBC_USER: part(url.username),
      JDBC_PASSWORD: part(url.password),
    }),
    apart: true,
  },
  {
    name: 'JDBC with its login in the URL',
    language: 'jdbc',
    command: (installed) => JAVA(installed),
    variables: (url) => ({ JDBC_URL: `${jdbcUrl(url)}?user=${url.username}&password=${url.password}` }),
    apart: true,
  },
  {
    name: "Npgsql's keywords",
    language: 'node',
    command: () => [process.execPath, 'npgsql.js'],
    variables: ({ hostname, port, username, password, pathname }) => ({
      ConnectionStrings__Default: `Host=${hostname};Port=${port};Username=${part(username)};Password=${part(password)};Database=${pathname.slice(1)};SSL Mode=Prefer`,
    }),
    apart: true,
  },
  {
    name: 'split variables that refuse DATABASE_URL beside them',
    language: 'node',
    command: () => [process.execPath, 'split.js'],
    variables: ({ hostname, port, username, password, pathname }) => ({
      DATABASE_HOST: hostname,
      DATABASE_PORT: port,
      DATABASE_NAME: pathname.slice(1),
      DATABASE_USER: part(username),
      DATABASE_PASSWORD: part(password),
    }),
    apart: true,
  },
  {
    name: 'psql whose script adds parameters to the URL',
    language: 'node',
    command: () => ['sh', '-c', 'psql -q "$DATABASE_URL?sslmode=disable&application_name=x" -f schema.sql'],
    variables: inUrl('postgresql'),
  },
];

/** Cargo takes minutes to build it. */
export const RUST_PROGRAM: DriverProgram = {
  name: 'tokio-postgres',
  language: 'rust',
  command: (installed) => [path.join(installed, 'bin/migrate')],
  variables: inUrl('postgresql'),
};
