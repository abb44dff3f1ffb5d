import { formatCount, formatDuration, plural } from '../../format.ts';
import type { Hazard, Report } from '../../model/report.ts';
import { atOnceWords } from '../at-once-phrases.ts';
import { hazardsInOrder } from '../hazard-blocks.ts';
import { costWords } from '../phrases.ts';
import { saferFormHint } from '../proposal-phrases.ts';
import { code, prose } from './escape-markdown.ts';
import { PART, type Part } from './markdown-part.ts';

const SIGNS = { error: '🛑', warning: '⚠️', notice: 'ℹ️' } as const;

export function hazardPart(report: Report): Part {
  const { hazards } = report;
  const hint = saferFormHint(report);
  const items = hazardsInOrder(report).flatMap(({ title, hazards: together }) =>
    title === null
      ? together.map(hazardItem)
      : [`- *${prose(title)}*`, ...together.map((hazard) => hazardItem(hazard).replaceAll(/^/gm, '  '))],
  );
  const foot = hint === null ? [] : ['', prose(hint)];
  return {
    ...PART,
    title: `Hazards: ${formatCount(hazards.length)}`,
    folded: false,
    importance: 10,
    items,
    foot,
  };
}

function hazardItem(hazard: Hazard): string {
  const { code: name, severity, relation, statement, message, evidence, advice, allowed } = hazard;
  return (
    `- ${SIGNS[severity]} **${name}**${relation === null ? '' : ` on ${code(relation)}`}` +
    `${statement === null ? '' : `, statement ${statement}`}${allowed ? ' (allowed by the policy)' : ''}: ` +
    `${prose(message)}${evidence === '' ? '' : `\n  - measured: ${prose(evidence)}`}` +
    `${advice === '' ? '' : `\n  - safer: ${prose(advice, 1000)}`}`
  );
}

export function failurePart({ statements }: Pick<Report, 'statements'>): Part {
  const failed = statements.filter(({ error }) => error !== null);
  return {
    ...PART,
    title: `Failed statements: ${formatCount(failed.length)}`,
    folded: false,
    importance: 9,
    items: failed.map(
      ({ index, sql, error }) =>
        `- ${index}. ${code(sql)}\n  - ${prose(error?.message ?? '')} (SQLSTATE ${error?.sqlstate ?? ''})`,
    ),
  };
}

export function queryPart({ queries }: Report): Part | undefined {
  if (!queries) return undefined;
  const rate = (perSecond: number | null) => (perSecond === null ? '' : `${perSecond.toFixed(1)} calls/s`);
  return {
    ...PART,
    title: `The application's queries: ${plural(queries.checked, 'query', 'queries')} checked, ${formatCount(queries.broken.length)} broken, ${formatCount(queries.slower.length)} slower`,
    folded: queries.broken.length + queries.slower.length === 0,
    importance: 8,
    head: ['| | query | calls | why |', '|---|---|---|---|'],
    items: [
      ...queries.broken.map(
        ({ sql, callsPerSecond, error }) =>
          `| broken | ${code(sql)} | ${rate(callsPerSecond)} | ${prose(error.message)} (${error.sqlstate}) |`,
      ),
      ...queries.slower.map(
        (query) =>
          `| slower | ${code(query.sql)} | ${rate(query.callsPerSecond)} | planner's cost ${costWords(query)}` +
          `${query.nodeAfter === null ? '' : `; ${prose(query.nodeBefore ?? '?')} → ${prose(query.nodeAfter)}`} |`,
      ),
    ],
  };
}

export function checkPart({ checks }: Report): Part {
  return {
    ...PART,
    title: `Checks: ${formatCount(checks.filter(({ passed }) => passed).length)} of ${formatCount(checks.length)} passed`,
    folded: checks.every(({ passed }) => passed),
    importance: 8,
    items: checks.map(({ name, passed, error, missing, added }) => {
      const why = error
        ? `: ${prose(error.message)} (${error.sqlstate}, ${error.when} the command)`
        : [
            ...missing.map((row) => `\n  - gone: ${code(row)}`),
            ...added.map((row) => `\n  - new: ${code(row)}`),
          ].join('');
      return `- ${passed ? '✅' : '❌'} ${code(name)}${why}`;
    }),
  };
}

export function atOncePart({ atOnce }: Report): Part | undefined {
  if (!atOnce) return undefined;
  const outcome = atOnce.passed ? 'passed' : 'did not pass';
  return {
    ...PART,
    title: `${atOnce.runs.length} runs at once (--at-once): ${outcome}`,
    folded: atOnce.passed,
    importance: 7,
    items: atOnceWords(atOnce).map((words) => `- ${prose(words)}`),
  };
}

export function furtherPart(title: string, further: Report['rerun']): Part | undefined {
  if (!further) return undefined;
  const outcome = further.passed ? 'passed' : 'did not pass';
  return {
    ...PART,
    title: `${title}: ${outcome}`,
    folded: further.passed,
    importance: 7,
    items: [
      `- ${code(further.command)} ended with exit code ${further.exitCode ?? '–'} after ${formatDuration(further.durationMs)}`,
      ...further.differences.map(({ what }) => `- ${prose(what)}`),
      ...further.dataDifferences.map(({ relation, what }) => `- ${code(relation)}: ${prose(what)}`),
    ],
  };
}
