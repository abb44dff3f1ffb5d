import { expect, test } from 'vitest';
import { flow, layoutTable } from '../../../src/report/text-layout.ts';
import { oneLine, visible, visibleJson } from '../../../src/report/visible.ts';
import { cutToWidth, displayWidth } from '../../../src/report/width.ts';

test.each([
  ['orders', 6],
  ['客户', 4],
  ['e\u0301', 1],
  ['👩‍👩‍👧', 2],
  ['🇩🇪', 2],
  ['❤️', 2],
  ['→', 1],
  ['\u0301', 0],
])('the text %j takes %i cells', (text, width) => {
  expect(displayWidth(text)).toBe(width);
});

test('characters that are assumed to take one cell do take one cell', () => {
  const single = Array.from({ length: 0x2800 }, (_, code) => String.fromCodePoint(code)).filter((sign) =>
    /[ -~\u{a1}-\u{ac}\u{ae}-\u{2af}\u{2010}-\u{2027}\u{2190}-\u{2193}\u{2713}\u{2717}\u{26a0}]/u.test(sign),
  );
  expect(displayWidth(single.join(''))).toBe(single.length);
  // A sign of two cells has the whole text looked at.
  expect(displayWidth(`${single.join('')}客`)).toBe(single.length + 2);
});

test('a text is cut between characters, and the mark fits in as well', () => {
  expect(cutToWidth('客户订单', 8, '…')).toBe('客户订单');
  expect(cutToWidth('客户订单', 6, '…')).toBe('客户…');
  expect(cutToWidth('orders and more', 8, '...')).toBe('order...');
});

test.each([
  ['\x1b[31m', '\\x1b[31m'],
  ['a\r\nb\tc', 'a\\r\\nb\\tc'],
  ['\u009b2J\u007f\0', '\\x9b2J\\x7f\\x00'],
  ['\u202eexe', '\\u{202e}exe'],
  ['\ud800', '\\u{d800}'],
  ['\u{e0041}', '\\u{e0041}'],
  ['客户 👩‍👩‍👧 é', '客户 👩‍👩‍👧 é'],
])('the text %j is shown as %s', (text, shown) => {
  expect(visible(text)).toBe(shown);
});

test('JSON has the same value after it is made visible', () => {
  const value = { name: '\u009b\u202e\u{e0041}\n\x1b é 👩‍👩‍👧' };
  const json = visibleJson(JSON.stringify(value, null, 2));
  expect(JSON.parse(json)).toEqual(value);
  expect(json).not.toMatch(/[^\P{Cc}\n]|\u202e/u);
});

test('SQL of several lines becomes one', () => {
  expect(oneLine('  select\n\t1 ')).toBe('select 1');
});

test('lines break at blanks, keep a number with its unit, and break a word only when it must', () => {
  const style = { columns: 20, colour: false, unicode: true };
  expect(flow(style, ['held for a long 12 ms'], 2, ['- '])).toEqual(['- held for a long', '  12 ms']);
  expect(flow(style, ['▲ CODE  a/path/that/fits'], 2, ['- '])).toEqual(['- ▲ CODE', '  a/path/that/fits']);
  expect(flow(style, ['abcdefghijklmnopqrstuvwxyz'], 2, ['- '])).toEqual([
    '- abcdefghijklmnopqr',
    '  stuvwxyz',
  ]);
});

test('a table that just fits stays a table, and only a row that is too wide is wrapped', () => {
  const style = { columns: 20, colour: false, unicode: true };
  const rows = [
    ['a', 'b', 'LOST 2 ROW'],
    ['long', 'c'],
    ['much_too_long_for_it', 'd'],
  ];
  expect(
    layoutTable(
      style,
      rows.map((columns) => ({ columns })),
      1,
    ),
  ).toEqual([' a     b  LOST 2 ROW', ' long  c', ' much_too_long_for_i', '     t  d']);
});
