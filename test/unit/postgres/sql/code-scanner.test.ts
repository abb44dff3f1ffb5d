import { expect, test } from 'vitest';
import { CodeScanner } from '../../../../src/postgres/sql/code-scanner.ts';

/** The tokens of a text that comes in two parts. @param enters the first so many literals are code. */
function tokensOf(text: string, cutAt = 0, enters = 0): string {
  const tokens: string[] = [];
  let left = enters;
  const scanner = new CodeScanner({
    token: (token) => tokens.push(token),
    enters: () => left-- > 0,
    leave: () => tokens.push(')'),
  });
  const bytes = Buffer.from(text);
  scanner.push(bytes.subarray(0, cutAt));
  scanner.push(bytes.subarray(cutAt));
  scanner.end();
  return tokens.join(' ');
}

const TEXTS: [text: string, tokens: string, enters?: number][] = [
  ['ALTER -- SYSTEM\nSystem', 'alter system'],
  ['alter/* a /* nested * / */ / ** */system/**/;', 'alter system ;'],
  ["SELECT 'it''s -- /* no', 12.5e3, $1 - 2 / 3", "select ' , 0 . 0 , 0 - 0 / 0"],
  [`x "a ""b"" ü" é$ü U&"\\0061" u & "q"`, 'x a "b" ü é$ü u&" & \\0061 u & q'],
  [String.raw`E'\'' a e'\\' b`, "' a ' b"],
  ["$$ it's $a$ $$ b $tag$ $tag $$ tag$ $tag$ c", "' b ' c"],
  ["DO 'x ''y'' $$z$$ -- w' v", "do ' x ' y ' ' ) v", 1],
  ["DO $a$ BEGIN /* $b$ */ EXECUTE 'create role'; $a$; d", "do ' begin execute ' create role ) ; ) ; d", 2],
  ["SELECT 'never closed", "select '"],
  ['/* never closed', ''],
];

test.each<[string, string, number?]>(TEXTS)(
  'cuts %s into tokens, wherever it is cut',
  (text, tokens, enters = 0) => {
    const all = Array.from({ length: Buffer.byteLength(text) + 1 }, (_, cutAt) =>
      tokensOf(text, cutAt, enters),
    );
    expect(all[0]).toBe(tokens);
    expect(new Set(all)).toEqual(new Set([tokens]));
  },
);
