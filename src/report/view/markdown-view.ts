import { formatCount } from '../../format.ts';
import { html } from '../html/escape-html.ts';
import { code, block as codeBlock, cut, prose } from '../markdown/escape-markdown.ts';
import { oneLine, visible } from '../visible.ts';
import {
  type Block,
  cellParts,
  type Item,
  type ItemMark,
  type Note,
  type Phrase,
  type PhrasePart,
  phraseParts,
  type Section,
  sectionsFor,
  type Table,
} from './section.ts';

const SENTENCE_CHARACTERS = 1_000;
/** A cell of a table is to stay short, while items have a line for themselves. */
const CELL_SQL_CHARACTERS = 160;

const SIGNS: Readonly<Record<string, string>> = { good: '✅ ', warning: '⚠️ ', bad: '❌ ', alarm: '🚨 ' };
const MARKS: Readonly<Record<ItemMark, string>> = { good: '✅', warning: '⚠️', bad: '❌', notice: 'ℹ️' };

/** A part of the page. Items can be left out from its end if the whole page would be too long. */
export interface CommentPart {
  /** Safe in Markdown if the part is open, and in HTML if it is folded. */
  readonly title: string;
  /** Folded away behind its title. */
  readonly folded: boolean;
  /** Items of the least important parts are left out first. */
  readonly importance: number;
  readonly blocks: readonly PartBlock[];
}

export interface PartBlock {
  /** Lines before the items, if any item is kept: the head of a table. */
  readonly head: readonly string[];
  readonly items: readonly string[];
  /** Lines after the items: the end of a block of code. */
  readonly foot: readonly string[];
}

/** The outcomes among the sections, which stand at the top in full. */
export function viewOutcomes(sections: readonly Section[]): string[] {
  return sectionsFor('markdown', sections)
    .filter(({ outcome }) => outcome !== undefined)
    .flatMap(({ outcome = 'plain', title, summary, blocks }, index) => {
      const words = `${title}${summary === undefined ? '' : `: ${phraseMarkdown(summary)}`}`;
      return [
        ...(index === 0 ? [] : ['']),
        `### ${SIGNS[outcome] ?? ''}${words}`,
        ...withoutGaps(blocks.map(partBlock)).flatMap(({ head, items, foot }) => [
          '',
          ...head,
          ...items,
          ...foot,
        ]),
      ];
    });
}

/** The other sections, and the parts of all of them. */
export function viewParts(sections: readonly Section[]): CommentPart[] {
  return sectionsFor('markdown', sections).flatMap((section) => [
    ...(section.outcome === undefined ? [partOf(section)] : []),
    ...viewParts(section.parts ?? []),
  ]);
}

function partOf({ title, summary, folds, importance, blocks }: Section): CommentPart {
  // There is nothing to unfold without blocks.
  const folded = folds !== 'never' && blocks.length > 0;
  const parts = summary === undefined ? [] : phraseParts(summary);
  const beside = parts.map(folded ? summaryText : (part) => partMarkdown(part)).join('');
  return {
    title: beside === '' ? title : `${title}: ${beside}`,
    folded,
    importance,
    blocks: withoutGaps(blocks.map(partBlock)),
  };
}

/** Lists that follow one another are one list. */
function withoutGaps(blocks: readonly PartBlock[]): PartBlock[] {
  const joined: PartBlock[] = [];
  for (const block of blocks) {
    const last = joined.at(-1);
    const isList = ({ head, items }: PartBlock) => head.length === 0 && items[0]?.startsWith('- ') === true;
    if (last && isList(last) && isList(block))
      joined.splice(-1, 1, { ...last, items: [...last.items, ...block.items] });
    else joined.push(block);
  }
  return joined;
}

function partBlock(block: Block): PartBlock {
  switch (block.kind) {
    case 'items':
      return { head: [], items: block.items.flatMap((item) => itemsMarkdown(item)), foot: [] };
    case 'facts':
      return {
        head: ['| | |', '|---|---|'],
        items: block.facts.map(
          ([label, value]) => `| ${label === '' ? '' : `**${label}**`} | ${phraseMarkdown(value)} |`,
        ),
        foot: [],
      };
    case 'table':
      return tableMarkdown(block);
    case 'script':
      return codeMarkdown('sql', block.sql.trimEnd());
    case 'diff':
      return codeMarkdown('diff', block.lines.map(visible).join('\n'));
    case 'paragraph':
      return { head: [], items: [phraseMarkdown(block.text)], foot: [] };
    case 'drawing':
      return { head: [], items: [], foot: [] };
  }
}

/** Each line is an item. */
function codeMarkdown(language: string, text: string): PartBlock {
  const [head = '', body = '', foot = ''] = codeBlock(language, text);
  return { head: [head], items: body.split('\n'), foot: [foot] };
}

/** A string for each item, so that it is left out as a whole; those of a list within an item are left out one by one. */
function itemsMarkdown({ mark, tag, text, notes = [], items = [] }: Item, indent = ''): string[] {
  const sign = mark === undefined ? '' : `${MARKS[mark]} `;
  const label = tag === undefined ? '' : `**${tag}** `;
  const within = notes.flatMap((note) => noteMarkdown(note, `${indent}  `));
  const own = `${indent}- ${sign}${label}${phraseMarkdown(text)}`;
  if (items.length === 0) return [[own, ...within].join('\n')];
  return [own, ...items.flatMap((item) => itemsMarkdown(item, `${indent}  `)), ...within];
}

function noteMarkdown({ label, text, sql = [], language = 'sql' }: Note, indent: string): string[] {
  const line = `${indent}- ${label === undefined ? '' : `${label}: `}${phraseMarkdown(text)}`.trimEnd();
  if (sql.length === 0) return [line];
  const statements = sql.map((statement) => visible(cut(statement, SENTENCE_CHARACTERS))).join('\n');
  const fenced = codeBlock(language, statements).join('\n').split('\n');
  return [line, ...fenced.map((each) => `${indent}  ${each}`)];
}

function tableMarkdown({ columns, rows }: Table): PartBlock {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return {
    head: [
      line(columns.map(({ title }) => title)),
      `|${columns.map(({ align }) => (align === 'right' ? '--:' : '---')).join('|')}|`,
    ],
    items: rows.map((cells) =>
      line(cells.map((cell) => phraseMarkdown(cellParts(cell).text, CELL_SQL_CHARACTERS))),
    ),
    foot: [],
  };
}

function phraseMarkdown(phrase: Phrase, sqlCharacters?: number): string {
  return phraseParts(phrase)
    .map((part) => partMarkdown(part, sqlCharacters))
    .join('');
}

function partMarkdown(part: PhrasePart, sqlCharacters?: number): string {
  if (typeof part === 'string') return prose(part, SENTENCE_CHARACTERS);
  if ('mark' in part) return '→';
  if ('statement' in part)
    return part.at === undefined ? `statement ${formatCount(part.statement)}` : code(part.at);
  if ('code' in part) return code(part.code, sqlCharacters);
  const words = prose(part.text, SENTENCE_CHARACTERS);
  return part.tone === 'plain' || part.tone === 'dim' || words.trim() === '' ? words : `**${words}**`;
}

/** Part of a folded title, which is HTML. Neither mentions of people nor links arise from it. */
function summaryText(part: PhrasePart): string {
  const [text, isCode] =
    typeof part === 'string'
      ? [part, false]
      : 'mark' in part
        ? ['→', false]
        : 'statement' in part
          ? [part.at ?? `statement ${formatCount(part.statement)}`, part.at !== undefined]
          : 'code' in part
            ? [part.code, true]
            : [part.text, false];
  const short = cut(text, SENTENCE_CHARACTERS);
  const safe = visible(isCode ? oneLine(short) : short.replace(/\s+/gu, ' '))
    .replace(/@/g, '@\u2060')
    .replace(/:\/\//g, ':\u2060//');
  const escaped = html`${safe}`.text;
  return isCode ? `<code>${escaped}</code>` : escaped;
}
