import { acceptFlag } from '../hazards/policy.ts';
import type {
  Hazard,
  Objection,
  PrintedHazard,
  PrintedObjection,
  PrintedReport,
  Report,
} from '../model/report.ts';
import { adviceParts } from './advice.ts';
import { placeOf } from './place.ts';

/** The report for programs: each hazard and each objection has all that one acts on. */
export function printedReportOf(report: Report): PrintedReport {
  const hazards = report.hazards.map((hazard) => printedHazardOf(report, hazard));
  const objections = (report.verdict.objections ?? report.verdict.reasons.map(unexplained)).map((each) =>
    printedObjectionOf(report, each, hazards),
  );
  return { ...report, hazards, verdict: { ...report.verdict, objections } };
}

/** Reports of earlier versions have sentences alone. */
function unexplained(message: string): Objection {
  return { code: 'NOT_PASSED', message, hazard: null, statement: null };
}

function printedHazardOf(report: Report, hazard: Hazard): PrintedHazard {
  const { advice, allowed, severity, lostRows = null } = hazard;
  return {
    ...hazard,
    ...statementFacts(report, hazard.statement),
    lockedMs: lockedMs(report, hazard),
    lostRows,
    fix: advice === '' ? null : adviceParts(advice),
    accept: allowed || severity === 'notice' ? null : acceptFlag(hazard),
  };
}

function printedObjectionOf(
  report: Report,
  objection: Objection,
  hazards: readonly PrintedHazard[],
): PrintedObjection {
  const hazard = objection.hazard === null ? undefined : hazards[objection.hazard];
  const own = { relation: null, lockedMs: null, lostRows: null, fix: null, accept: null };
  const { relation, lockedMs, lostRows, fix, accept } = hazard ?? own;
  return {
    ...objection,
    ...statementFacts(report, objection.statement),
    relation,
    lockedMs,
    lostRows,
    fix,
    accept,
  };
}

function statementFacts(report: Report, statement: number | null) {
  const { file = null, line = null } = placeOf(report, statement) ?? {};
  return { file, line, sql: report.statements.find(({ index }) => index === statement)?.sql ?? null };
}

/** Finds how long the transaction of a hazard's statement blocks reads or writes of its relation. */
function lockedMs({ statements }: Report, { statement, relation }: Hazard): number | null {
  const own = statements.find(({ index }) => index === statement);
  if (own === undefined || relation === null) return null;
  const held = statements
    .filter(({ transaction }) => transaction === own.transaction)
    .flatMap(({ locks }) => locks ?? [])
    .filter((lock) => (lock.indexOf ?? lock.relation) === relation)
    .filter(({ blocks }) => blocks.includes('reads') || blocks.includes('writes'))
    .flatMap(({ heldMs }) => heldMs ?? []);
  return held.length === 0 ? null : Math.max(...held);
}
