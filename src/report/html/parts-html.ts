import { type Html, html } from './escape-html.ts';

/** A part of the page under a heading of its own. @param id unique on the page. */
export function section(id: string, title: string, content: readonly Html[]): Html {
  return html`
<section aria-labelledby="${id}"><h2 id="${id}">${title}</h2>
${content}</section>`;
}

export function tableHtml(head: readonly string[], rows: readonly (readonly Html[])[]): Html {
  return html`<div class="wide"><table><thead><tr>${head.map((title) => html`<th scope="col">${title}</th>`)}</tr></thead><tbody>${rows.map((cells) => html`<tr>${cells.map((cell) => html`<td>${cell}</td>`)}</tr>`)}</tbody></table></div>`;
}

/** Labels beside what they say. */
export function facts(rows: readonly (readonly [label: string, value: string | Html])[]): Html {
  return html`<dl class="facts">${rows.map(([label, value]) => html`<dt>${label}</dt><dd>${value}</dd>`)}</dl>`;
}

export function listHtml(items: readonly string[]): Html | undefined {
  return items.length === 0 ? undefined : html`<ul>${items.map((item) => html`<li>${item}</li>`)}</ul>`;
}

/** As long as the value is large against the largest of its like. @param kind `before` for what it is compared with. */
export function bar(value: number, largest: number, kind: '' | 'before' = ''): Html {
  const share = largest > 0 ? value / largest : 0;
  return html`<span class="bar ${kind}" style="width:${(share * BAR_REM).toFixed(2)}rem"></span>`;
}

const BAR_REM = 6;
