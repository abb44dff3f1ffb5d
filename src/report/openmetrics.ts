import { sentStatements } from '../model/repeated.ts';
import type { Report } from '../model/report.ts';
import { type Family, one } from './openmetrics/family.ts';
import { applyFamilies, forecastFamilies, swapFamilies } from './openmetrics/outcome-metrics.ts';

/** Renders the run's figures as OpenMetrics text for a textfile collector. Units are in the names. */
export function renderOpenMetrics(report: Report): string {
  const database = report.target.database;
  const families = [
    ...rehearsalFamilies(report),
    ...forecastFamilies(report),
    ...applyFamilies(report),
    ...swapFamilies(report),
  ];
  return [...families.flatMap((family) => linesOf(family, database)), '# EOF', ''].join('\n');
}

function rehearsalFamilies(report: Report): Family[] {
  const { run, clone, command, statements, schema, data, hazards, verdict } = report;
  const severities = ['error', 'warning', 'notice'] as const;
  return [
    ['run_passed', 'Whether the rehearsal passed.', one(Number(verdict.pass))],
    ['run_finished_timestamp_seconds', 'Time when the run ended.', one(Date.parse(run.finishedAt) / 1000)],
    [
      'run_duration_seconds',
      'Duration of the whole run.',
      one((Date.parse(run.finishedAt) - Date.parse(run.startedAt)) / 1000),
    ],
    [
      'clone_duration_seconds',
      'Time until the clone was ready.',
      [[{ method: clone.method, strategy: clone.strategy }, clone.durationMs / 1000]],
    ],
    [
      'command_duration_seconds',
      'Duration of the migration command on the clone.',
      one(command.durationMs / 1000),
    ],
    ['command_exit_code', 'Exit code of the migration command.', one(command.exitCode)],
    ['statements', 'Statements that the command sent.', one(sentStatements(statements))],
    [
      'statements_failed',
      'Statements that failed.',
      one(statements.filter(({ error }) => error !== null).length),
    ],
    ['lock_held_max_seconds', 'Longest time that a lock of each mode was held.', longestHolds(statements)],
    ['schema_changes', 'Schema changes of the command.', one(schema?.changes.length ?? null)],
    ['wal_bytes', 'WAL that the command wrote.', one(data?.walBytes ?? null)],
    ['size_delta_bytes', 'Growth of the database.', one(data?.sizeDeltaBytes ?? null)],
    [
      'hazards',
      'Hazards that the policy does not allow.',
      severities.map((severity) => [
        { severity },
        hazards.filter((hazard) => hazard.severity === severity && !hazard.allowed).length,
      ]),
    ],
  ];
}

function longestHolds(statements: Report['statements']): [Record<string, string>, number][] {
  const longest = new Map<string, number>();
  for (const { locks } of statements)
    for (const { mode, heldMs } of locks ?? [])
      longest.set(mode, Math.max(longest.get(mode) ?? 0, heldMs ?? 0));
  return [...longest].map(([mode, heldMs]) => [{ mode }, heldMs / 1000]);
}

/** The lines of a family; nothing if none of its values was measured. */
function linesOf([name, help, samples]: Family, database: string): string[] {
  const known = samples.filter(([, value]) => value !== null);
  if (known.length === 0) return [];
  const unit = UNIT.exec(name)?.[1];
  return [
    `# TYPE safemigrate_${name} gauge`,
    ...(unit === undefined ? [] : [`# UNIT safemigrate_${name} ${unit}`]),
    `# HELP safemigrate_${name} ${help}`,
    ...known.map(([labels, value]) => `safemigrate_${name}${labelled({ database, ...labels })} ${value}`),
  ];
}

const UNIT = /_(seconds|bytes)$/;

function labelled(labels: Record<string, string>): string {
  const quoted = (value: string) =>
    value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
  return `{${Object.entries(labels)
    .map(([name, value]) => `${name}="${quoted(value)}"`)
    .join(',')}}`;
}
