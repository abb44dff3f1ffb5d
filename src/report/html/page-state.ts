import { type Html, html } from './escape-html.ts';
import { listHtml } from './parts-html.ts';

const SIGNS = { good: '✓', bad: '✗', alarm: '!' } as const;

/** The page's title if the run was to change the target: the outcome and its reasons. */
export function stateHeader(kind: keyof typeof SIGNS, title: string, reasons: readonly string[]): Html {
  return html`<header class="verdict ${kind}"><h1>${SIGNS[kind]} ${title}</h1>${listHtml(reasons)}</header>`;
}
