import { formatCount } from '../../format.ts';
import { cutText, Html, html } from '../html/escape-html.ts';
import {
  type Block,
  type Cell,
  cellParts,
  type Fact,
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

/** Longer tables and lists would make a page that no browser can open; the JSON report has everything. */
const LISTED = 1_000;
const SQL_CHARACTERS = 1_000;
const SCRIPT_CHARACTERS = 100_000;
/** Longer scripts are folded. */
const OPEN_LINES = 30;

/** Sections as parts of the page. The first outcome is its title. */
export function viewHtml(sections: readonly Section[]): Html[] {
  const shown = sectionsFor('html', sections);
  const first = shown.find(({ outcome }) => outcome !== undefined);
  return shown.map((section) => sectionHtml(section, section === first));
}

function sectionHtml(section: Section, isTitle = false): Html {
  const { id, title, summary, outcome, folds, blocks, parts = [] } = section;
  const own = blocks.map(blockHtml);
  const below = parts.map((part) => sectionHtml(part));
  if (outcome !== undefined) {
    const words = html`<span class="outcome">${signed(outcome)}${title}${summary !== undefined && ':'}</span>${summary !== undefined && html` <span class="why">${phraseHtml(summary)}</span>`}`;
    return html`
<section id="${id}" aria-label="${id.charAt(0).toUpperCase()}${id.slice(1)}"><header class="verdict ${outcome}">${isTitle ? html`<h1>${words}</h1>` : html`<h2>${words}</h2>`}
${own}</header>${below}</section>`;
  }
  if (folds === 'always')
    return html`
<details id="${id}"><summary>${title}${summary !== undefined && html`: ${phraseHtml(summary)}`}</summary>${own}${below}</details>`;
  return html`
<section aria-labelledby="${id}"><h2 id="${id}">${title}</h2>${summary !== undefined && html`<p>${phraseHtml(summary)}</p>`}
${own}${below}</section>`;
}

const SIGNS: Readonly<Record<string, string>> = { good: '✓ ', bad: '✗ ', alarm: '! ' };

function signed(outcome: string): string {
  return SIGNS[outcome] ?? '';
}

function blockHtml(block: Block): Html {
  switch (block.kind) {
    case 'items':
      return itemsHtml(block.items);
    case 'facts':
      return factsHtml(block.facts);
    case 'table':
      return viewTable(block);
    case 'script':
      return scriptHtml(block.sql);
    case 'diff':
      return html`<pre>${block.lines.join('\n')}</pre>`;
    case 'paragraph':
      return html`<p>${phraseHtml(block.text)}</p>`;
    case 'drawing':
      return block.draw();
  }
}

function scriptHtml(sql: string): Html {
  const script = copyable(cutText(sql, SCRIPT_CHARACTERS));
  const lines = sql.trimEnd().split('\n').length;
  return lines <= OPEN_LINES
    ? script
    : html`<details><summary>${formatCount(lines)} lines of SQL</summary>${script}</details>`;
}

/** Text to be pasted; the script of the page shows the button where there is a clipboard. */
function copyable(text: string): Html {
  return html`<div class="copy"><pre>${text}</pre><button type="button" hidden>Copy</button></div>`;
}

/** Labels and their values in two columns; a value without a label belongs to the one before it. */
function factsHtml(facts: readonly Fact[]): Html {
  const row = ([label, value]: Fact) =>
    html`${label !== '' && html`<dt>${label}</dt>`}<dd>${phraseHtml(value)}</dd>`;
  return html`<dl class="facts">${facts.map(row)}</dl>`;
}

function itemsHtml(items: readonly Item[]): Html {
  return html`<ul>${items.slice(0, LISTED).map(itemHtml)}</ul>${moreHtml(items.length)}`;
}

function itemHtml({ mark, tag, text, notes = [], items = [] }: Item): Html {
  const isFinding = mark !== undefined && notes.length > 0;
  return html`<li${isFinding && html` class="finding ${mark}"`}>${mark !== undefined && html`<span class="tag ${mark}">${tag ?? WORDS[mark]}</span> `}${phraseHtml(text)}${items.length > 0 && itemsHtml(items)}${notes.map(noteHtml)}</li>`;
}

/** Tags of items that have no word of their own. */
const WORDS: Readonly<Record<ItemMark, string>> = {
  good: 'passed',
  bad: 'failed',
  warning: 'warning',
  notice: 'notice',
};

function noteHtml({ label, text, sql = [] }: Note): Html {
  const lead = label === undefined ? undefined : html`<strong>${label}:</strong> `;
  return html`<div>${lead}${phraseHtml(text)}</div>${sql.length > 0 && copyable(sql.join('\n'))}`;
}

function viewTable({ columns, rows }: Table): Html {
  const numeric = (at: number) => columns[at]?.align === 'right' && NUMERIC;
  const head = columns.map(({ title }, at) =>
    title === '' ? html`<td></td>` : html`<th scope="col"${numeric(at)}>${title}</th>`,
  );
  const body = rows
    .slice(0, LISTED)
    .map(
      (cells) => html`<tr>${cells.map((cell, at) => html`<td${numeric(at)}>${cellHtml(cell)}</td>`)}</tr>`,
    );
  return html`<div class="wide"><table><thead><tr>${head}</tr></thead><tbody>${body}</tbody></table></div>${moreHtml(rows.length)}`;
}

/** Length of the longest bar. */
const BAR_REM = 6;
const NUMERIC = html` class="num"`;

function cellHtml(cell: Cell): Html {
  const { text, bars } = cellParts(cell);
  return html`${bars.map(({ share, before }) => html`<span class="bar ${before ? 'before' : ''}" style="width:${(share * BAR_REM).toFixed(2)}rem"></span> `)}${phraseHtml(text)}`;
}

function moreHtml(count: number): Html | undefined {
  return count <= LISTED
    ? undefined
    : html`<p class="dim">and ${formatCount(count - LISTED)} more, see the JSON report</p>`;
}

function phraseHtml(phrase: Phrase): Html {
  return new Html(
    phraseParts(phrase)
      .map((part) => partHtml(part).text)
      .join(''),
  );
}

function partHtml(part: PhrasePart): Html {
  if (typeof part === 'string') return html`${cutText(part)}`;
  if ('mark' in part) return html`→`;
  if ('statement' in part)
    return html`<a href="#statement-${part.statement}">${part.at === undefined ? `statement ${formatCount(part.statement)}` : html`<code>${part.at}</code>`}</a>`;
  if ('tone' in part)
    return part.tone === 'strong'
      ? html`<strong>${part.text}</strong>`
      : html`<span class="${part.tone}">${part.text}</span>`;
  return html`<code>${cutText(part.code, part.as === 'sql' ? SQL_CHARACTERS : undefined)}</code>`;
}
