import { type Html, html } from './escape-html.ts';

/** A section of the page with a heading. @param id unique on the page. */
export function section(id: string, title: string, content: readonly Html[]): Html {
  return html`
<section aria-labelledby="${id}"><h2 id="${id}">${title}</h2>
${content}</section>`;
}

export function tableHtml(head: readonly string[], rows: readonly (readonly Html[])[]): Html {
  return html`<div class="wide"><table><thead><tr>${head.map((title) => html`<th scope="col">${title}</th>`)}</tr></thead><tbody>${rows.map((cells) => html`<tr>${cells.map((cell) => html`<td>${cell}</td>`)}</tr>`)}</tbody></table></div>`;
}

/** Labels and their values in two columns; a value without a label belongs to the one before it. */
export function facts(rows: readonly (readonly [label: string, value: string | Html])[]): Html {
  return html`<dl class="facts">${rows.map(([label, value]) => html`${label !== '' && html`<dt>${label}</dt>`}<dd>${value}</dd>`)}</dl>`;
}

export function listHtml(items: readonly string[]): Html | undefined {
  return items.length === 0 ? undefined : html`<ul>${items.map((item) => html`<li>${item}</li>`)}</ul>`;
}

/** A bar whose length is the value's share of the largest. @param kind `before` for the value to compare with. */
export function bar(value: number, largest: number, kind: '' | 'before' = ''): Html {
  const share = largest > 0 ? value / largest : 0;
  return html`<span class="bar ${kind}" style="width:${(share * BAR_REM).toFixed(2)}rem"></span>`;
}

const BAR_REM = 6;
