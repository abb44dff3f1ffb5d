import type { PrintedHazard, PrintedObjection, Report } from '../model/report.ts';
import type { Summary } from '../model/summary-model.ts';
import { placeWords } from './place.ts';
import { printedReportOf } from './printed-report.ts';
import { nextWords } from './sections/verdict-view.ts';
import { oneLine, visibleJson } from './visible.ts';

/** An agent's context and a chat message hold this. */
const MOST_BYTES = 2048;
const MESSAGE_CHARACTERS = 160;

type SummaryFinding = Summary['findings'][number];

/** Renders the outcome and what to do about it in at most 2 kB: the least important findings are left out first. */
export function renderSummary(report: Report): string {
  const whole = summaryOf(report);
  for (let kept = whole.findings.length; ; kept--) {
    const more = whole.findings.length - kept;
    const text = textOf({ ...whole, findings: whole.findings.slice(0, kept), more });
    if (kept === 0 || Buffer.byteLength(text) <= MOST_BYTES) return text;
  }
}

function textOf(summary: Summary): string {
  return `${visibleJson(JSON.stringify(summary, null, 1))}\n`;
}

function summaryOf(report: Report): Summary {
  const { run, verdict, target, exitCode = null, apply, swap } = report;
  const { hazards, verdict: printed } = printedReportOf(report);
  const open = hazards.filter(({ allowed }) => !allowed);
  const count = (wanted: string) => open.filter(({ severity }) => severity === wanted).length;
  const stopping = new Set(printed.objections.map(({ hazard }) => hazard));
  const others = (['error', 'warning'] as const).flatMap((wanted) =>
    hazards.filter((hazard, at) => hazard.severity === wanted && !hazard.allowed && !stopping.has(at)),
  );
  return {
    version: 1,
    run: run.id,
    outcome: apply?.outcome ?? swap?.outcome ?? (verdict.pass ? 'passed' : 'did not pass'),
    pass: verdict.pass,
    exitCode,
    unchanged: target.unchanged,
    hazards: {
      errors: count('error'),
      warnings: count('warning'),
      notices: count('notice'),
      accepted: hazards.length - open.length,
    },
    findings: [
      ...printed.objections.map((each) => findingOf(each, true)),
      ...others.map((each) => findingOf(each, false)),
    ],
    more: 0,
    next: short(nextStep(report)),
  };
}

/** After an apply or a swap that was not made, its first reason says what to do. */
function nextStep(report: Report): string {
  const { apply, swap } = report;
  if (apply === null && swap === null) return nextWords(report);
  return (apply ?? swap)?.reasons[0] ?? 'nothing: it is done';
}

function findingOf(
  { code, relation, file, line, message, fix, accept }: PrintedHazard | PrintedObjection,
  stops: boolean,
): SummaryFinding {
  return {
    code,
    stops,
    ...(relation !== null && { relation }),
    ...(file !== null && { at: placeWords({ file, line }) }),
    message: short(message),
    ...(fix !== null && { fix: short([fix.advice, ...fix.sql].join(' ')) }),
    ...(accept !== null && { accept }),
  };
}

function short(text: string): string {
  const line = oneLine(text);
  return line.length <= MESSAGE_CHARACTERS ? line : `${line.slice(0, MESSAGE_CHARACTERS - 1)}…`;
}
