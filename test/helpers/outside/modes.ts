import path from 'node:path';
import { JAVA, type LANGUAGES } from '../drivers.ts';
import type { SentStep, Step } from './steps.ts';

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

const ALL_DRIVERS: readonly MeasuredDriver[] = [
  {
    name: 'psql',
    modes: ['file'],
    language: null,
    command: () => ['sh', '-c', 'exec psql -X -q "$DATABASE_URL" -o /dev/null -f psql-file.sql'],
    scripts: (mode, steps) => ({ [`psql-${mode}.sql`]: psqlScript(steps) }),
  },
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

/** Cargo takes minutes to build it. */
export const RUST_DRIVER: MeasuredDriver = {
  name: 'tokio-postgres',
  modes: ['simple', 'prepared', 'pipelined'],
  language: 'rust',
  command: (installed) => [path.join(installed, 'bin/oracle'), 'simple', 'prepared', 'pipelined'],
  scripts: (mode, steps) => ({ [`rust-${mode}.txt`]: lines(steps, '$') }),
};

/** Those that the variable names, separated by commas, or all of them. */
export const MEASURED_DRIVERS = ALL_DRIVERS.filter(
  ({ name }) => process.env.ORACLE_DRIVERS?.split(',').includes(name) ?? true,
);

/** A batch of pgjdbc fetches one row of a SELECT at most, and then has no use for the others. */
export const LEAVES_PORTALS: ReadonlySet<string> = new Set([keyOf('pgjdbc', 'batched')]);

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

type SingleStep = Exclude<Step, { do: 'together' }>;

/** One after the other, where nothing is sent together. */
function flat(steps: readonly Step[]): SingleStep[] {
  return steps.flatMap((step): readonly SingleStep[] => (step.do === 'together' ? step.steps : [step]));
}

function psqlScript(steps: readonly Step[]): string {
  return flat(steps)
    .map((step) => {
      if (step.do === 'pause') return `\\! sleep ${step.seconds}\n`;
      return 'sql' in step ? `${step.literal};\n` : `${step.do};\n`;
    })
    .join('');
}

/** For languages without a reader of JSON of their own. @param parameter what stands for one: `?`, or `$` with its number. */
function lines(steps: readonly Step[], parameter: '?' | '$'): string {
  const line = (step: SingleStep, what: string = step.do) => {
    if (!('sql' in step)) return `${[what, 'seconds' in step ? step.seconds : ''].join('\t')}\n`;
    const { size = '', values, sql, literal } = step;
    return `${[what, size, values.join(' '), parameter === '$' ? sql : sql.replaceAll(/\$\d/g, '?'), literal].join('\t')}\n`;
  };
  return steps
    .map((step) =>
      step.do === 'together'
        ? `${step.steps.map((each) => line(each, 'together')).join('')}end\n`
        : line(step),
    )
    .join('');
}

/** Variables of pgbench are parameters but in the simple protocol. */
function pgbenchScript(steps: readonly Step[], mode: string): string {
  const sent = ({ sql, values }: SentStep) =>
    `${values.map((value, index) => `\\set value_${index + 1} ${value}\n`).join('')}${sql.replace(/\$(\d)/g, ':value_$1')};\n`;
  return steps
    .map((step) => {
      if (step.do === 'pause') return `\\sleep ${step.seconds * 1000} ms\n`;
      if (step.do === 'together') {
        const all = step.steps.map(sent).join('');
        return mode === 'pipelined' ? `\\startpipeline\n${all}\\endpipeline\n` : all;
      }
      return 'sql' in step ? sent(step) : `${step.do};\n`;
    })
    .join('');
}
