import type { Report } from './model.ts';

/** The run's figures as OpenMetrics text, for a textfile collector. Units are those of the names. */
export function renderOpenMetrics(report: Report): string {
  const { run, target, clone, command, statements, schema, data, hazards, verdict } = report;
  const labels = { database: target.database };
  const gauge = (name: string, help: string, samples: [Record<string, string>, number | null][]) => {
    const known = samples.filter((sample): sample is [Record<string, string>, number] => sample[1] !== null);
    if (known.length === 0) return [];
    return [
      `# TYPE safemigrate_${name} gauge`,
      ...(UNIT.exec(name) ? [`# UNIT safemigrate_${name} ${UNIT.exec(name)?.[1]}`] : []),
      `# HELP safemigrate_${name} ${help}`,
      ...known.map(([more, value]) => `safemigrate_${name}${labelled({ ...labels, ...more })} ${value}`),
    ];
  };
  const one = (value: number | null): [Record<string, string>, number | null][] => [[{}, value]];
  const severities = ['error', 'warning', 'notice'] as const;
  return [
    ...gauge('run_passed', 'Whether the rehearsal passed.', one(Number(verdict.pass))),
    ...gauge('run_finished_timestamp_seconds', 'When the run ended.', one(Date.parse(run.finishedAt) / 1000)),
    ...gauge(
      'run_duration_seconds',
      'The whole run.',
      one((Date.parse(run.finishedAt) - Date.parse(run.startedAt)) / 1000),
    ),
    ...gauge('clone_duration_seconds', 'Until the clone could be used.', [
      [{ method: clone.method, strategy: clone.strategy }, clone.durationMs / 1000],
    ]),
    ...gauge(
      'command_duration_seconds',
      'The migration command on the clone.',
      one(command.durationMs / 1000),
    ),
    ...gauge('command_exit_code', 'Of the migration command.', one(command.exitCode)),
    ...gauge('statements', 'Statements that the command sent.', one(statements.length)),
    ...gauge(
      'statements_failed',
      'Statements that failed.',
      one(statements.filter(({ error }) => error !== null).length),
    ),
    ...gauge('lock_held_max_seconds', 'The longest hold of each lock mode.', longestHolds(statements)),
    ...gauge('schema_changes', 'Objects that the command changed.', one(schema?.changes.length ?? null)),
    ...gauge('wal_bytes', 'WAL that the command wrote.', one(data?.walBytes ?? null)),
    ...gauge('size_delta_bytes', 'By which the database grew.', one(data?.sizeDeltaBytes ?? null)),
    ...gauge(
      'hazards',
      'Hazards that the policy does not allow.',
      severities.map((severity) => [
        { severity },
        hazards.filter((hazard) => hazard.severity === severity && !hazard.allowed).length,
      ]),
    ),
    '# EOF',
    '',
  ].join('\n');
}

const UNIT = /_(seconds|bytes)$/;

function longestHolds(statements: Report['statements']): [Record<string, string>, number][] {
  const longest = new Map<string, number>();
  for (const { locks } of statements)
    for (const { mode, heldMs } of locks ?? [])
      longest.set(mode, Math.max(longest.get(mode) ?? 0, heldMs ?? 0));
  return [...longest].map(([mode, heldMs]) => [{ mode }, heldMs / 1000]);
}

function labelled(labels: Record<string, string>): string {
  const quoted = (value: string) =>
    value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
  return `{${Object.entries(labels)
    .map(([name, value]) => `${name}="${quoted(value)}"`)
    .join(',')}}`;
}
