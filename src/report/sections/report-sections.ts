import type { Report } from '../../model/report.ts';
import type { Section } from '../view/section.ts';
import { appView } from './app-view.ts';
import { applyView } from './apply-view.ts';
import { caveatsView } from './caveats-view.ts';
import { checkViews } from './checks-view.ts';
import { dataView, lossView } from './data-view.ts';
import { forecastView } from './forecast-view.ts';
import { hazardsView } from './hazards-view.ts';
import { loadView } from './load-view.ts';
import { proposalView } from './proposal-view.ts';
import { queriesView } from './queries-view.ts';
import { runView } from './run-view.ts';
import { rollbackView, schemaView } from './schema-view.ts';
import { scriptView } from './script-view.ts';
import { failuresView, statementsView, timelineView } from './statements-view.ts';
import { swapView } from './swap-view.ts';
import { cleanupView, targetChangesView, targetSessionsView } from './target-view.ts';
import { answersView, verdictView } from './verdict-view.ts';

/** All sections of a report in their order, which is the same in every format: the outcome, the worries, the measurements. */
export function reportSections(report: Report): Section[] {
  const { pass } = report.verdict;
  return [
    ...applyView(report),
    ...swapView(report),
    ...targetChangesView(report),
    verdictView(report),
    ...(pass ? [] : failuresView(report)),
    ...hazardsView(report),
    ...answersView(report),
    ...loadView(report),
    runView(report),
    ...targetSessionsView(report),
    ...proposalView(report),
    ...scriptView(report),
    ...queriesView(report),
    ...appView(report),
    ...checkViews(report),
    ...timelineView(report),
    ...lossView(report),
    ...schemaView(report),
    ...dataView(report),
    ...statementsView(report),
    ...forecastView(report),
    ...(pass ? failuresView(report) : []),
    ...rollbackView(report),
    ...caveatsView(report),
    ...cleanupView(report),
  ];
}
