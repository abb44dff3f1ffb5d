/** The text between `<!-- name -->` and `<!-- end of name -->`, without the empty lines around it. */
export function blockOf(text: string, name: string): string {
  return around(text, name)[1].replace(/^\n+|\n+$/g, '');
}

export function withBlock(text: string, name: string, block: string): string {
  const [before, , after] = around(text, name);
  return `${before}\n\n${block}\n\n${after}`;
}

/** @throws Error if the text has no such block. */
function around(text: string, name: string): [before: string, block: string, after: string] {
  const [begin, close] = [`<!-- ${name} -->`, `<!-- end of ${name} -->`];
  const [start, end] = [text.indexOf(begin) + begin.length, text.indexOf(close)];
  if (start < begin.length || end < start) throw new Error(`there is no block between ${begin} and ${close}`);
  return [text.slice(0, start), text.slice(start, end), text.slice(end)];
}
