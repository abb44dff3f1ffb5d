import { plural } from '../format.ts';
import type { Report } from '../model/report.ts';
import type { UpgradeReport } from '../model/upgrade-model.ts';
import { code } from './markdown/escape-markdown.ts';
import { reportSections } from './sections/report-sections.ts';
import { upgradeView } from './sections/upgrade-view.ts';
import { type CommentPart, type PartBlock, viewOutcomes, viewParts } from './view/markdown-view.ts';
import type { Section } from './view/section.ts';

/** GitHub refuses a comment of 65,536 characters and more. */
export const MARKDOWN_CHARACTERS = 65_000;

/** The mark by which a later run finds the comment to replace. */
export const COMMENT_MARK = '<!-- safemigrate -->';

/** The report for a pull request: the outcome, what to worry about, and everything else folded away. */
export function renderMarkdown(report: Report): string {
  return `${COMMENT_MARK}\n${markdownPage(reportSections(report), report.run)}`;
}

/** The report of an upgrade for a pull request or an issue. */
export function renderUpgradeMarkdown(report: UpgradeReport): string {
  return markdownPage(upgradeView(report), report.run);
}

/**
 * Renders sections as a page that is never longer than a comment may be: the items of the least important parts are left out
 * first, and the report says how many.
 */
function markdownPage(
  sections: readonly Section[],
  { id, tool }: Pick<Report['run'], 'id' | 'tool'>,
): string {
  const top = viewOutcomes(sections);
  const all = viewParts(sections);
  const foot = `<sub>safemigrate ${tool.version}, run ${code(id)}</sub>`;
  let left = MARKDOWN_CHARACTERS - lengthOf(top) - foot.length - lengthOf(all.flatMap(frame));
  const shown = new Map<CommentPart, readonly PartBlock[]>();
  for (const part of all.toSorted((one, other) => other.importance - one.importance)) {
    const kept = part.blocks.map((block) => {
      const fitting = fittingBlock(block, left);
      left -= lengthOf(linesOf(fitting));
      return fitting;
    });
    shown.set(part, kept);
  }
  return `${[...top, ...all.flatMap((part) => render(part, shown.get(part) ?? [])), '', foot].join('\n')}\n`;
}

/** The lines around the blocks, with the longest line that says how many items are missing. */
function frame(part: CommentPart): string[] {
  return [...opening(part), ...closing(part), missing(countOf(part.blocks))];
}

function opening({ title, folded }: CommentPart): string[] {
  return folded ? ['', `<details><summary>${title}</summary>`] : ['', `#### ${title}`];
}

function closing({ folded }: CommentPart): string[] {
  return folded ? ['', '</details>'] : [];
}

function missing(count: number): string {
  return `\n… and ${plural(count, 'more line')}, left out to keep this short: see the JSON report`;
}

function render(part: CommentPart, kept: readonly PartBlock[]): string[] {
  const left = countOf(part.blocks) - countOf(kept);
  return [...opening(part), ...kept.flatMap(linesOf), ...(left > 0 ? [missing(left)] : []), ...closing(part)];
}

function countOf(blocks: readonly PartBlock[]): number {
  return blocks.reduce((sum, { items }) => sum + items.length, 0);
}

/** A block without items has no lines at all. */
function linesOf({ head, items, foot }: PartBlock): string[] {
  return items.length === 0 ? [] : ['', ...head, ...items, ...foot];
}

/** Writes as many of the items as fit, beginning with the first. */
function fittingBlock({ head, items, foot }: PartBlock, characters: number): PartBlock {
  let sum = lengthOf(['', ...head, ...foot]);
  const over = items.findIndex((item) => {
    sum += item.length + 1;
    return sum > characters;
  });
  return { head, items: over === -1 ? items : items.slice(0, over), foot };
}

function lengthOf(lines: readonly string[]): number {
  return lines.reduce((sum, line) => sum + line.length + 1, 0);
}
