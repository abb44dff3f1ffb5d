import { formatCount, plural } from '../../format.ts';
import type { SchemaChange, SchemaObject, SchemaSection } from '../../model/report.ts';
import { type SideBySideRow, sideBySide } from '../side-by-side.ts';
import { cutText, Html, html } from './escape-html.ts';

/** If there are more, they are folded, so that the page stays readable. */
const OPEN_OBJECTS = 12;
const OPEN = new Html(' open');
/** Equal lines shown around a difference; the others are only counted. */
const CONTEXT_LINES = 3;
const FEWEST_FOLDED = 6;

/**
 * The changed objects, each before and after side by side.
 * @param possible changes that may or may not lose data.
 */
export function changedObjectsHtml(
  { objects = [], objectsLeftOut = 0, changes }: SchemaSection,
  possible: readonly SchemaChange[],
): Html[] {
  const all = objects.map((object) => {
    const parts = changes.filter((change) => isPartOf(change.object, object));
    return html`
<details class="object"${objects.length <= OPEN_OBJECTS && OPEN}><summary><span class="tag ${TAGS[object.verb]}">${object.verb}</span> ${object.kind} <code>${object.object}</code>${object.formerly !== null && html`, formerly <code>${object.formerly}</code>`}${lossTag(parts, possible)}</summary>
${sides(object)}</details>`;
  });
  if (objectsLeftOut === 0) return all;
  return [
    ...all,
    html`<p class="dim">${plural(objectsLeftOut, 'more changed object')} not described here.</p>`,
  ];
}

/** A tag that says whether one of the changes loses data, or may lose data. */
export function lossTag(changes: readonly SchemaChange[], possible: readonly SchemaChange[]): Html | false {
  const losing = changes.filter(({ dataLoss }) => dataLoss);
  if (losing.length === 0) return false;
  const known = losing.some((change) => !possible.includes(change));
  return html` <span class="tag bad">${known ? 'destroys' : 'may lose'} data</span>`;
}

const TAGS = { create: 'good', alter: '', drop: 'warning' } as const;

/** Changes have the names from before the command. */
function isPartOf(change: string, { object, formerly }: SchemaObject): boolean {
  const name = formerly ?? object;
  return change === name || change.startsWith(`${name}.`);
}

function sides({ before, after }: SchemaObject): Html {
  if (before === null || after === null) {
    const none = html`<pre class="empty">does not exist</pre>`;
    const whole = (text: string, kind: string) => html`<pre class="${kind}">${lineCut(text)}</pre>`;
    return html`<div class="diff">${group('Before', before === null ? none : whole(before, 'gone'))}${group('After', after === null ? none : whole(after, 'made'))}</div>`;
  }
  const rows = folded(sideBySide(before, after));
  return html`<div class="sides" style="--rows:${rows.length + 1}">${side('Before', 'before', rows)}${side('After', 'after', rows)}</div>`;
}

function group(title: string, content: Html): Html {
  return html`<div role="group" aria-label="${title}"><div class="dim">${title}</div>${content}</div>`;
}

function side(title: string, which: 'before' | 'after', rows: readonly (SideBySideRow | number)[]): Html {
  const changed = which === 'before' ? 'del' : 'ins';
  const lines = rows.map((row) => {
    if (typeof row === 'number') return `<div class="dim">⋯ ${formatCount(row)} equal lines</div>`;
    const text = row[which];
    if (text === null) return '<i></i>';
    const content = row.same
      ? html`${cutText(text)}`.text
      : marked(text, row[which === 'before' ? 'after' : 'before']);
    return row.same ? `<div>${content}</div>` : `<${changed}>${content}</${changed}>`;
  });
  return html`<div class="side" role="group" aria-label="${title}"><div class="title dim">${title}</div>${new Html(lines.join(''))}</div>`;
}

/** Replaces long runs of equal rows with their number. */
function folded(rows: readonly SideBySideRow[]): (SideBySideRow | number)[] {
  const shown: (SideBySideRow | number)[] = [];
  for (let from = 0; from < rows.length; ) {
    let to = from;
    while (rows[to]?.same) to += 1;
    const hidden = to - from - 2 * CONTEXT_LINES;
    if (hidden < FEWEST_FOLDED) shown.push(...rows.slice(from, to));
    else shown.push(...rows.slice(from, from + CONTEXT_LINES), hidden, ...rows.slice(to - CONTEXT_LINES, to));
    for (from = to; rows[from]?.same === false; from++) shown.push(...rows.slice(from, from + 1));
  }
  return shown;
}

/** Highlights the difference from the other side's line if most of the line is the same. */
function marked(text: string, beside: string | null): string {
  if (beside === null || text !== cutText(text)) return html`${cutText(text)}`.text;
  const [own, other] = [[...text], [...beside]];
  const shorter = Math.min(own.length, other.length);
  let start = 0;
  while (start < shorter && own[start] === other[start]) start += 1;
  let end = 0;
  while (end < shorter - start && own.at(-1 - end) === other.at(-1 - end)) end += 1;
  const changed = own.slice(start, own.length - end).join('');
  if (start + end < shorter / 2 || changed === '') return html`${text}`.text;
  return html`${own.slice(0, start).join('')}<b>${changed}</b>${own.slice(own.length - end).join('')}`.text;
}

function lineCut(text: string): string {
  return text
    .split('\n')
    .map((line) => cutText(line))
    .join('\n');
}
