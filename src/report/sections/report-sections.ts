import type { Report } from '../../model/report.ts';
import type { Section } from '../view/section.ts';
import { applyView } from './apply-view.ts';
import { hazardsView } from './hazards-view.ts';
import { proposalView } from './proposal-view.ts';
import { scriptView } from './script-view.ts';
import { swapView } from './swap-view.ts';
import { targetChangesView } from './target-view.ts';
import { verdictView } from './verdict-view.ts';

/** The outcomes, which stand at the top. */
export function outcomeViews(report: Report): Section[] {
  return [...applyView(report), ...swapView(report), ...targetChangesView(report), verdictView(report)];
}

export function findingViews(report: Report): Section[] {
  return [...hazardsView(report), ...proposalView(report), ...scriptView(report)];
}
