import { formatBytes, formatDuration, plural } from '../format.ts';
import { isolatedFrom } from '../hazards/attempt-words.ts';
import { sentStatements } from '../model/repeated.ts';
import type { Report } from '../model/report.ts';
import { firstAnswers } from './first-answers.ts';
import { containmentText, watchedWords } from './isolation-phrases.ts';
import { code, prose } from './markdown/escape-markdown.ts';
import type { CommentPart, PartBlock } from './markdown/markdown-part.ts';
import { parts } from './markdown/parts-markdown.ts';
import { losingChanges, sizesWords, swapWords, unprovedWords } from './phrases.ts';
import { applyView } from './sections/apply-view.ts';
import { viewOutcomes } from './view/markdown-view.ts';

/** GitHub refuses a comment of 65,536 characters and more. */
export const MARKDOWN_CHARACTERS = 65_000;

/** The mark by which a later run finds the comment to replace. */
export const COMMENT_MARK = '<!-- safemigrate -->';

/**
 * The report for a pull request: the verdict, what to worry about, and everything else folded away. It is never longer than a
 * comment may be: the items of the least important parts are left out first, and the report says how many.
 */
export function renderMarkdown(report: Report): string {
  const top = [
    COMMENT_MARK,
    ...viewOutcomes(applyView(report)),
    ...swapped(report),
    ...verdict(report),
    '',
    ...summary(report),
  ];
  const foot = `<sub>safemigrate ${report.run.tool.version}, run ${code(report.run.id)}</sub>`;
  const all = parts(report);
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

function swapped({ swap, target }: Report): string[] {
  if (swap === null) return [];
  const { outcome, reasons, original, sessionsEnded, steps } = swap;
  const took = steps.map(({ name, durationMs }) => `${name} ${formatDuration(durationMs)}`).join(', ');
  return [
    `### ${outcome === 'swapped' ? '✅' : '❌'} ${swapWords(swap, code(target.database))}`,
    '',
    ...reasons.map((reason) => `- ${prose(reason, 1000)}`),
    ...(outcome === 'swapped'
      ? [
          `- the original is kept as ${code(original ?? '?')}; to go back, as long as nothing has been written since: \`safemigrate rollback\``,
          `- ${plural(sessionsEnded, 'session')} terminated; ${prose(took)}`,
          '- cumulative statistics start at zero; the planner statistics are those of the original',
        ]
      : []),
    '',
  ];
}

function verdict(report: Report): string[] {
  const {
    verdict: { pass, reasons },
    target,
  } = report;
  const unproved = unprovedWords(report);
  const watched = watchedWords(report);
  const sizes = sizesWords(report);
  const title = `### ${pass ? '✅ The migration passed its rehearsal' : '❌ The migration did not pass its rehearsal'}`;
  const authors = target.changes.map(({ madeBy }) => madeBy);
  const changed = authors.includes('command')
    ? ['', '> 🚨 **The command changed the target itself. A person must look.**']
    : authors.includes('unknown')
      ? [
          '',
          '> 🚨 **The target changed while the command ran, and who changed it is unknown. A person must look.**',
        ]
      : [];
  return [
    title,
    ...changed,
    ...(unproved === undefined
      ? []
      : ['', `> ⚠️ The target is not proved unchanged: ${prose(unproved, 1000)}`]),
    ...(watched === undefined ? [] : ['', `> ⚠️ ${prose(watched, 1000)}`]),
    ...(sizes === undefined ? [] : ['', `> ${prose(sizes, 1000)}`]),
    ...(reasons.length > 0 ? [''] : []),
    ...reasons.map((reason) => `- ${prose(reason, 1000)}`),
  ];
}

function summary(report: Report): string[] {
  const { command, target, clone, schema, statements, data } = report;
  const row = (label: string, value: string) => `| ${label} | ${value} |`;
  const { certain, possible } = losingChanges({ schema, data });
  const notAllowed = isolatedFrom(command.isolation);
  const lost = [
    ...(certain.length > 0 ? [`, **${certain.length} of them destroy data**`] : []),
    ...(possible.length > 0 ? [`, **${possible.length} of them may lose data**`] : []),
  ];
  return [
    '| | |',
    '|---|---|',
    ...firstAnswers(report).map(({ question, words }) => row(`**${question}**`, prose(words, 500))),
    row('command', `${code(command.argv.join(' '))}, ${plural(sentStatements(statements), 'statement')}`),
    ...(notAllowed === undefined ? [] : [row('attempts', prose(notAllowed, 500))]),
    row(
      'target',
      `${code(target.database)}, PostgreSQL ${target.serverVersion}, ${formatBytes(target.sizeBytes)}`,
    ),
    row(
      'clone',
      `${clone.method} (${clone.strategy}) in ${formatDuration(clone.durationMs)}, ${containmentText(clone)}`,
    ),
    row(
      'schema',
      schema === null ? 'not compared' : `${plural(schema.changes.length, 'change')}${lost.join('')}`,
    ),
    ...(data?.walBytes == null ? [] : [row('WAL', formatBytes(data.walBytes))]),
  ];
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

/** As many of the items as fit, beginning with the first. */
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
