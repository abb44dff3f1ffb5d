import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import MarkdownIt from 'markdown-it';

const require = createRequire(import.meta.url);

/** A page with Markdown as a code host shows it in a comment: its dialect, and the style sheet that is taken from it. */
export function codeHostPage(markdown: string): string {
  const renderer = new MarkdownIt({ html: true, linkify: true, breaks: true });
  const style = readFileSync(require.resolve('github-markdown-css/github-markdown-light.css'), 'utf8');
  return `<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>comment</title>
<style>${style} body { margin: 0 } main { padding: 24px }</style><main class="markdown-body">${renderer.render(markdown)}</main>`;
}

/** How a terminal shows the codes that reports use. */
const LOOKS: Readonly<Record<string, string>> = {
  '1': 'font-weight: bold',
  '2': 'color: #9aa4b2',
  '7': 'filter: invert(1)',
  '31': 'color: #ff7b72',
  '32': 'color: #56d364',
  '33': 'color: #e3b341',
};

/** A page that shows a text with its codes for colours as a dark terminal does. @throws Error if a code is not known. */
export function terminalPage(text: string): string {
  const [first = '', ...pieces] = text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').split('\u001b[');
  const spans = pieces.map((piece) => {
    const end = piece.indexOf('m');
    return `</span><span style="${lookOf(piece.slice(0, end))}">${piece.slice(end + 1)}`;
  });
  return `<!doctype html><meta charset="utf-8"><title>terminal</title>
<style>body { margin: 0; padding: 20px; background: #0d1117; color: #e6edf3 }
pre { margin: 0; font: 14px/1.35 'DejaVu Sans Mono', 'Liberation Mono', monospace }</style><pre><span>${first}${spans.join('')}</span></pre>`;
}

/** The style that a sequence of codes gives to all that follows: each begins with a reset. */
function lookOf(codes: string): string {
  const looks = codes.split(';').map((code) => (code === '0' ? '' : LOOKS[code]));
  if (looks.includes(undefined)) throw new Error(`not known how a terminal shows ${codes}`);
  return looks.join('; ');
}
