// The package's own beginning loads 20 files more.
import { diffArrays } from 'diff/lib/diff/array.js';
import { formatCount, plural } from '../../format.ts';
import type { SchemaChange, SchemaObject, SchemaSection } from '../../model/report.ts';
import { cutText, Html, html } from './escape-html.ts';

/** If there are more, they are folded, so that the page stays readable. */
const MOST_OPEN = 12;
const OPEN = new Html(' open');
/** Equal lines shown around a difference; the others are only counted. */
const CONTEXT_LINES = 3;
const FEWEST_FOLDED = 6;

/**
 * The changed objects, each before and after side by side, and the SQL of the changes.
 * @param possible changes that may or may not lose data.
 */
export function schemaHtml(schema: SchemaSection, possible: readonly SchemaChange[]): Html {
  const { objects = [], objectsLeftOut = 0, changes } = schema;
  const described = objects.map((object) => {
    const parts = changes.filter((change) => isPartOf(change.object, object));
    return html`
<details class="object"${objects.length <= MOST_OPEN && OPEN}><summary><span class="tag ${TAGS[object.verb]}">${object.verb}</span> ${object.kind} <code>${object.object}</code>${object.formerly !== null && html`, formerly <code>${object.formerly}</code>`}${lossTag(parts, possible)}</summary>
${sides(object)}</details>`;
  });
  const open = objects.length === 0 && changes.length <= MOST_OPEN;
  const statements = changes.map(
    (change) =>
      html`<details${open && OPEN}><summary>${change.verb} ${change.kind} <code>${change.object}</code>${lossTag([change], possible)}</summary><pre>${cutText(change.sql)}</pre></details>`,
  );
  return html`${objects.length > 0 && html`<h3>Objects</h3>`}${described}${
    objectsLeftOut > 0 &&
    html`<p class="dim">${plural(objectsLeftOut, 'more changed object')} not described here.</p>`
  }${changes.length > 0 && html`<h3>SQL</h3>`}${statements}`;
}

/** A tag that says whether one of the changes loses data, or may lose data. */
function lossTag(changes: readonly SchemaChange[], possible: readonly SchemaChange[]): Html | false {
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

/** A line of two texts beside each other; null on the side that has no line there. */
interface SideBySideRow {
  readonly before: string | null;
  readonly after: string | null;
  /** The character that ends a line does not count: `,` becomes `;` if nothing follows. */
  readonly same: boolean;
}

/** Aligns the lines of two texts, so that as many equal ones as possible are beside each other. */
export function sideBySide(before: string, after: string): SideBySideRow[] {
  const [old, now] = [before.split('\n'), after.split('\n')];
  const rows: SideBySideRow[] = [];
  let [oldFrom, nowFrom] = [0, 0];
  const addRows = (oldCount: number, nowCount: number, same: boolean) => {
    for (let line = 0; line < Math.max(oldCount, nowCount); line++)
      rows.push({
        before: line < oldCount ? (old[oldFrom + line] ?? null) : null,
        after: line < nowCount ? (now[nowFrom + line] ?? null) : null,
        same,
      });
    oldFrom += oldCount;
    nowFrom += nowCount;
  };
  let removed = 0;
  let added = 0;
  for (const change of diffArrays(old, now, {
    comparator: (one, other) => lineBody(one) === lineBody(other),
  })) {
    if (change.removed) removed += change.count;
    else if (change.added) added += change.count;
    else {
      addRows(removed, added, false);
      addRows(change.count, change.count, true);
      [removed, added] = [0, 0];
    }
  }
  addRows(removed, added, false);
  return rows;
}

const lineBody = (line: string) => line.replace(/[,;]$/, '');
