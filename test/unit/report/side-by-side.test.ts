import { expect, test } from 'vitest';
import { sideBySide } from '../../../src/report/html/objects-html.ts';

/** `=` for equal lines, `-` and `+` for those of one side. */
function rows(before: string, after: string): string[] {
  return sideBySide(before, after).flatMap((row) => {
    if (row.same) return [`= ${row.before} | ${row.after}`];
    return [`${row.before === null ? '' : `-${row.before}`}${row.after === null ? '' : `+${row.after}`}`];
  });
}

test.each([
  ['a line that came', 'a\nc', 'a\nb\nc', ['= a | a', '+b', '= c | c']],
  ['a line that went', 'a\nb\nc', 'a\nc', ['= a | a', '-b', '= c | c']],
  ['lines that became others', 'a\nb\nc\nz', 'a\nx\nz', ['= a | a', '-b+x', '-c', '= z | z']],
  [
    'a line behind the last of a list',
    '(\na\n);',
    '(\na,\nb\n);',
    ['= ( | (', '= a | a,', '+b', '= ); | );'],
  ],
  ['several places', 'a\nb\nc\nd\ne', 'b\nc\nx\ne\nf', ['-a', '= b | b', '= c | c', '-d+x', '= e | e', '+f']],
  ['the same line many times', 'a\na\na', 'a\na', ['= a | a', '= a | a', '-a']],
  ['nothing alike', 'a', 'b\nc', ['-a+b', '+c']],
])('side by side: %s', (_what, before, after, expected) => {
  expect(rows(before, after)).toEqual(expected);
});

test('side by side, both texts are complete, whatever they contain', () => {
  let seed = 7;
  const random = (below: number) => {
    seed = (seed * 48271) % 2147483647;
    return seed % below;
  };
  for (let turn = 0; turn < 500; turn++) {
    const text = () => Array.from({ length: random(12) }, () => 'abc,'[random(4)]).join('\n');
    const [before, after] = [text(), text()];
    const told = sideBySide(before, after);
    const lines = (side: 'before' | 'after') =>
      told.flatMap((row) => (row[side] === null ? [] : [row[side]])).join('\n');
    expect(lines('before')).toBe(before);
    expect(lines('after')).toBe(after);
  }
});
