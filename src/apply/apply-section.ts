import { steadyDate } from '../clock.ts';
import type { ApplySection, Caveat, Report, StatementSection } from '../model/report.ts';
import { beginsAsData } from '../postgres/sql/classify-statement.ts';
import type { Rehearsal } from '../rehearsal/receipts/receipt.ts';
import type { Cleanup } from '../scope.ts';
import type { ApplyPlan } from './apply-plan.ts';
import type { Guardrails } from './apply-settings.ts';

export interface ApplyResult {
  readonly section: ApplySection;
  readonly caveats: readonly Caveat[];
  readonly run?: string;
  /** Changes of the target since the rehearsal, if a new rehearsal would help. */
  readonly outdated?: readonly string[];
}

export const NOT_STARTED = {
  startedAt: null,
  finishedAt: null,
  command: null,
  attempts: [],
  statements: [],
  transactions: [],
  during: null,
  schemaEqual: null,
  fingerprints: null,
  differences: [],
  leftovers: [],
  comparedTimes: [],
  committed: [],
  rolledBack: [],
  wayBack: null,
  bookkeeping: null,
} satisfies Partial<ApplySection>;

/** The hazard of definitions that differ in every run. */
const VARIES = 'DIFFERS_EVERY_RUN';

export function refusedApply(rehearsal: Rehearsal, plan: ApplyPlan, reasons: string[]): ApplyResult {
  const section = { ...NOT_STARTED, ...applyBasis(rehearsal, plan), outcome: 'refused' as const, reasons };
  return { section, caveats: [] };
}

/** Says why a rehearsal does not permit an apply without --force. @param now where dates in names are compared with it */
export function objectionToApply(
  { verdict, schema, hazards, statements }: Pick<Report, 'verdict' | 'schema' | 'hazards' | 'statements'>,
  { onDivergence }: Pick<Guardrails, 'onDivergence'>,
  now = new Date(),
): string | undefined {
  if (!verdict.pass) return 'the rehearsal did not pass';
  const varies = hazards.find(
    ({ code, severity, allowed }) => code === VARIES && severity !== 'notice' && !allowed,
  );
  if (varies && onDivergence === 'stop')
    return `it would stop at statement ${varies.statement}, which differs in every run (${VARIES}; --on-divergence warn permits it)`;
  const dated = onDivergence === 'stop' ? statements.find((each) => hasPastDay(each, now)) : undefined;
  if (dated)
    return `statement ${dated.index} has the date of its rehearsal in a definition, and that day is over: if the command writes it there at run time, it would stop at that statement (rehearse again, or --on-divergence warn)`;
  return schema === null
    ? 'the rehearsal could not read the schema, so that the result on the target could not be compared'
    : undefined;
}

/** Tells whether a definition has the date of the day on which it was rehearsed, in UTC or here, and that is another day now. */
function hasPastDay({ sql, startedAt }: StatementSection, now: Date): boolean {
  if (beginsAsData(sql)) return false;
  const today = daysOf(now);
  const past = daysOf(new Date(startedAt)).filter((day) => !today.includes(day));
  return past.length > 0 && [...sql.matchAll(DAY)].some(([, ...parts]) => past.includes(parts.join('-')));
}

const DAY = /(?<!\d)(20\d\d)[-_]?(\d\d)[-_]?(\d\d)(?!\d)/g;

function daysOf(time: Date): string[] {
  const local = [time.getFullYear(), time.getMonth() + 1, time.getDate()];
  return [time.toISOString().slice(0, 10), local.map((part) => String(part).padStart(2, '0')).join('-')];
}

/** Describes what the apply relies on: a rehearsal, a receipt, --force. */
export function applyBasis(
  rehearsal: Rehearsal,
  { force, guardrails }: Pick<ApplyPlan, 'force' | 'guardrails'>,
): Pick<ApplySection, 'rehearsal' | 'receipt' | 'forced'> {
  const { run } = rehearsal.report;
  const forced = objectionToApply(rehearsal.report, guardrails) === undefined ? null : force;
  if (!('receipt' in rehearsal)) return { rehearsal: run.id, receipt: null, forced };
  const { proved, seal } = rehearsal.receipt;
  const ageMs = Math.max(0, Date.now() - Date.parse(proved.finishedAt));
  const receipt = { finishedAt: proved.finishedAt, ageMs, signed: seal.kind === 'hmac-sha256' };
  return { rehearsal: run.id, receipt, forced };
}

/** Adds the apply, and what it released, to the report of its rehearsal. */
export function withApply(
  report: Report,
  { section, caveats, run }: ApplyResult,
  startedAt: Date,
  { done, failed }: Cleanup,
): Report {
  return {
    ...report,
    run: {
      ...report.run,
      ...(run === undefined ? {} : { id: run }),
      startedAt: startedAt.toISOString(),
      finishedAt: steadyDate().toISOString(),
      mode: 'apply',
    },
    caveats: [...report.caveats, ...caveats],
    apply: section,
    cleanup: {
      done: [...report.cleanup.done, ...done],
      failed: [...report.cleanup.failed, ...failed],
    },
  };
}
