import path from 'node:path';
import { inject } from 'vitest';
import { JAVA, type LANGUAGES } from '../drivers.ts';
import { boundScript, lines, pgbenchScript, prismaScript, psqlCommands, psqlScript } from './mode-scripts.ts';
import type { Step } from './steps.ts';

type Language = keyof typeof LANGUAGES;

/** A driver whose program runs the steps of its modes, one mode after the other. */
export interface MeasuredDriver {
  readonly name: string;
  readonly modes: readonly string[];
  /** What has to be installed; null: programs of PostgreSQL itself. */
  readonly language: Language | null;
  /** Programs of this language run by one command, with the name of the driver. */
  readonly command: (installed: string) => readonly string[];
  /** What the programs of PostgreSQL read, beside steps.json. */
  readonly scripts?: (mode: string, steps: readonly Step[]) => Readonly<Record<string, string>>;
}

const node = (name: string, ...modes: string[]): MeasuredDriver => ({
  name,
  modes,
  language: 'node',
  command: () => [process.execPath, 'oracle.js', name],
});

const python = (name: string, ...modes: string[]): MeasuredDriver => ({
  name,
  modes,
  language: 'python',
  command: (installed) => [path.join(installed, 'bin/python'), 'oracle.py', name],
});

const go = (name: string, ...modes: string[]): MeasuredDriver => ({
  name,
  modes,
  language: 'go',
  command: (installed) => [path.join(installed, 'bin/oracle'), name],
});

const JDBC_MODES = ['simple', 'extended', 'prepared', 'for-prepared', 'batched'] as const;

/** \bind came with psql 16, \parse and pipelines with 18: the one on PATH may be older. */
const boundPsql = (programs: string): MeasuredDriver => ({
  name: 'psql 19',
  modes: ['bound', 'prepared', 'pipelined'],
  language: null,
  command: () => ['sh', '-ec', BOUND, path.join(programs, 'psql')],
  scripts: (mode, steps) => ({ [`psql-${mode}.sql`]: boundScript(steps, mode) }),
});

/** Not every platform has them. */
const PROGRAMS_OF_19 = inject('programs')[19];

const ALL_DRIVERS: readonly MeasuredDriver[] = [
  {
    name: 'psql',
    modes: ['file', 'commands'],
    language: null,
    command: () => [
      'sh',
      '-ec',
      'psql -X -q "$DATABASE_URL" -o /dev/null -f psql-file.sql; exec sh psql-commands.sh',
    ],
    scripts: (mode, steps) =>
      mode === 'commands'
        ? { 'psql-commands.sh': psqlCommands(steps) }
        : { 'psql-file.sql': psqlScript(steps) },
  },
  ...(PROGRAMS_OF_19 === undefined ? [] : [boundPsql(PROGRAMS_OF_19)]),
  {
    name: 'pgbench',
    modes: ['simple', 'extended', 'prepared', 'pipelined'],
    language: null,
    command: () => ['sh', '-ec', PGBENCH],
    scripts: (mode, steps) => ({
      [`pgbench-${mode}.sql`]: pgbenchScript(
        steps.filter((step) => step.do !== 'fail'),
        mode,
      ),
      // An error ends pgbench.
      [`pgbench-${mode}-fail.sql`]: pgbenchScript(
        steps.filter((step) => step.do === 'fail'),
        mode,
      ),
    }),
  },
  node('node-pg', 'simple', 'parameters', 'named'),
  node('postgres.js', 'simple', 'extended', 'prepared', 'pipelined'),
  python('psycopg2', 'simple'),
  python('psycopg', 'simple', 'parameters', 'prepared', 'pipelined'),
  python('asyncpg', 'simple', 'prepared'),
  python('pg8000', 'parameters'),
  {
    name: 'prisma',
    modes: ['migrate'],
    language: 'prisma',
    command: (installed) => ['sh', '-ec', PRISMA, path.join(installed, 'no-engine')],
    scripts: (_, steps) => ({
      'prisma/journal.sql': PRISMA_JOURNAL,
      'prisma/steps.config.ts': `import shop from './prisma.config.ts';
export default { ...shop, migrations: { path: 'steps' } };
`,
      'prisma/steps/1/migration.sql': prismaScript(steps.filter((step) => step.do !== 'fail')),
      // An error ends it.
      'prisma/steps/2/migration.sql': prismaScript(steps.filter((step) => step.do === 'fail')),
    }),
  },
  go('pgx', 'simple', 'exec', 'describe exec', 'cache describe', 'cache statement', 'batched'),
  go('pq', 'simple', 'parameters', 'prepared'),
  {
    name: 'pgjdbc',
    modes: JDBC_MODES,
    language: 'jdbc',
    command: (installed) => [...JAVA(installed, 'Oracle'), ...JDBC_MODES],
    scripts: (mode, steps) => ({ [`steps-${mode}.txt`]: lines(steps, '?') }),
  },
];

const rust = (name: string, program: string, ...modes: string[]): MeasuredDriver => ({
  name,
  modes,
  language: 'rust',
  command: (installed) => [path.join(installed, 'bin', program), ...modes],
  scripts: (mode, steps) => ({ [`${name}-${mode}.txt`]: lines(steps, '$') }),
});

const RUST_DRIVERS = [
  rust('tokio-postgres', 'oracle', 'simple', 'prepared', 'pipelined'),
  rust('sqlx', 'oracle-sqlx', 'simple', 'parameters', 'prepared'),
];

/** Those that the variable names, separated by commas, or all of them. */
const chosen = (drivers: readonly MeasuredDriver[]) =>
  drivers.filter(({ name }) => process.env.ORACLE_DRIVERS?.split(',').includes(name) ?? true);

export const MEASURED_DRIVERS = chosen(ALL_DRIVERS);

/** Cargo takes minutes to build their programs. */
export const MEASURED_RUST_DRIVERS = chosen(RUST_DRIVERS);

/** A batch of pgjdbc fetches one row of a SELECT at most, and then has no use for the others. */
export const LEAVES_PORTALS: ReadonlySet<string> = new Set([keyOf('pgjdbc', 'batched')]);

const BOUND = `
for mode in bound prepared pipelined; do
  "$0" -X -q "$DATABASE_URL" -o /dev/null -f psql-$mode.sql
done`;

/** Without it, Prisma migrates nothing but an empty database. */
const PRISMA_JOURNAL = `
CREATE TABLE _prisma_migrations (
  id varchar(36) PRIMARY KEY, checksum varchar(64) NOT NULL, finished_at timestamptz, migration_name varchar(255) NOT NULL,
  logs text, rolled_back_at timestamptz, started_at timestamptz NOT NULL DEFAULT now(),
  applied_steps_count int NOT NULL DEFAULT 0)`;

const PRISMA = `
cd prisma
export DIRECT_URL="$DATABASE_URL" PRISMA_QUERY_ENGINE_LIBRARY="$0" CHECKPOINT_DISABLE=1
psql -X -q "$DATABASE_URL" -f journal.sql
! node_modules/.bin/prisma migrate deploy --config steps.config.ts`;

const PGBENCH = `
for mode in simple extended prepared pipelined; do
  protocol=$mode; test $mode != pipelined || protocol=extended
  pgbench -n -t 1 -M $protocol -f pgbench-$mode.sql "$DATABASE_URL"
  ! pgbench -n -t 1 -M $protocol -f pgbench-$mode-fail.sql "$DATABASE_URL"
done`;

/** `node-pg named` is `node_pg_named`, in names of tables. */
export function keyOf(driver: string, mode: string): string {
  return `${driver} ${mode}`.replaceAll(/\W/g, '_').toLowerCase();
}
