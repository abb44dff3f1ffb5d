import { RunComparison } from '../../src/apply/guardrails/run-comparison.ts';
import type { TargetNames } from '../../src/apply/guardrails/target-names.ts';
import type { StatementSection } from '../../src/model/report.ts';
import { parseText } from '../../src/postgres/sql/parse.ts';
import { rehearsedOf } from '../../src/rehearsal/receipts/rehearsed.ts';

export interface ComparedRuns {
  readonly redacted?: boolean;
  readonly target?: Partial<Record<keyof TargetNames, readonly string[]>>;
  /** The names of the target and of its clone. */
  readonly databases?: readonly string[];
}

const READING = ['version', 'current_schema', 'pg_advisory_lock', 'now', 'set_config', 'count'];

/** Returns what each statement of a run is, compared with a rehearsal: of texts, each in session 1, or of a report's statements. */
export async function compareRuns(
  rehearsal: readonly string[] | readonly StatementSection[],
  run: readonly string[],
  { redacted = false, target = {}, databases = [] }: ComparedRuns = {},
) {
  const statements = rehearsal.map((each, at) =>
    typeof each === 'string' ? { index: at + 1, sql: each, durationMs: 1 } : each,
  );
  const { code = [], relations = [], reading = READING, executing = [] } = target;
  const names = {
    code: new Set(code),
    relations: new Set(relations),
    reading: new Set(reading),
    executing: new Set(executing),
  };
  const comparison = await RunComparison.with(rehearsedOf(statements, databases), {
    redacted,
    target: names,
  });
  const answers: string[] = [];
  for (const sql of run) {
    const [parsed = null] = (await parseText(Buffer.from(sql))) ?? [];
    answers.push(comparison.next({ session: 1, sql, parsed }));
  }
  return answers;
}
