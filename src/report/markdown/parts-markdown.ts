import { formatCount, formatDuration } from '../../format.ts';
import { statementTime } from '../../hazards/evidence.ts';
import { strongestLock } from '../../hazards/held-locks.ts';
import { sentStatements } from '../../model/repeated.ts';
import type { Report, StatementSection } from '../../model/report.ts';
import { repetitionWords } from '../phrases.ts';
import { checkViews } from '../sections/checks-view.ts';
import { queriesView } from '../sections/queries-view.ts';
import { findingViews, outcomeViews } from '../sections/report-sections.ts';
import { runView } from '../sections/run-view.ts';
import { cleanupView, targetSessionsView } from '../sections/target-view.ts';
import { viewParts } from '../view/markdown-view.ts';
import { dataPart, lossPart, rollbackPart, schemaPart } from './changes-markdown.ts';
import { code, prose } from './escape-markdown.ts';
import { failurePart } from './findings-markdown.ts';
import { forecastPart } from './forecast-markdown.ts';
import { loadPart } from './load-markdown.ts';
import { type CommentPart, commentPart, PART, type Part } from './markdown-part.ts';

export function parts(report: Report): CommentPart[] {
  return [
    ...viewParts([
      ...outcomeViews(report),
      runView(report),
      ...targetSessionsView(report),
      ...findingViews(report),
    ]),
    ...old(failurePart(report)),
    ...viewParts([...queriesView(report), ...checkViews(report)]),
    ...old(
      lossPart(report),
      schemaPart(report),
      dataPart(report),
      loadPart(report),
      forecastPart(report),
      statementPart(report),
      rollbackPart(report),
      caveatPart(report),
    ),
    ...viewParts(cleanupView(report)),
  ];
}

function old(...parts: (Part | undefined)[]): CommentPart[] {
  return parts.flatMap((part) => (part && part.items.length > 0 ? [commentPart(part)] : []));
}

export function statementPart({ statements }: Pick<Report, 'statements'>): Part {
  const slowest = statements.toSorted(
    (one, other) =>
      (other.atProductionSize?.ms ?? other.durationMs) - (one.atProductionSize?.ms ?? one.durationMs),
  );
  return {
    ...PART,
    title: `Statements: ${formatCount(sentStatements(statements))}, the slowest first`,
    importance: 4,
    head: ['| | statement | time | strongest lock |', '|---|---|---|---|'],
    items: slowest.map(
      (statement) =>
        `| ${statement.index} | ${code(statement.sql, 160)}${statement.repeated ? `<br>${prose(repetitionWords(statement.repeated))}` : ''} | ${formatDuration(statement.durationMs)}${statement.atProductionSize ? `<br>${statementTime(statement)}` : ''} | ${strongest(statement)} |`,
    ),
  };
}

function strongest(statement: StatementSection): string {
  const lock = strongestLock(statement);
  return lock ? `${lock.mode} on ${code(lock.relation)}` : '';
}

export function caveatPart({ caveats }: Pick<Report, 'caveats'>): Part {
  return {
    ...PART,
    title: `Caveats: ${formatCount(caveats.length)}`,
    importance: 2,
    items: caveats.map(({ path, kind, reason }) => `- ${code(path)} (${kind}): ${prose(reason)}`),
  };
}
