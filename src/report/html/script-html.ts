import type { Report } from '../../model/report.ts';
import { scriptWords } from '../script-phrase.ts';
import { type Html, html } from './escape-html.ts';

/** What came of --script. */
export function scriptHtml({ script }: Report): Html | undefined {
  if (!script) return undefined;
  return html`
<section aria-labelledby="script"><h2 id="script">Script</h2><p>${scriptWords(script)}</p></section>`;
}
