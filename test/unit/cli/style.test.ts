import { expect, test } from 'vitest';
import { styleOf } from '../../../src/cli/style.ts';

const terminal = { isTTY: true, columns: 92 };
const file = {};
const env = { TERM: 'xterm-256color', LANG: 'en_GB.UTF-8' };

test('a terminal gets colour, its own width and live lines', () => {
  expect(styleOf(terminal, env)).toEqual({
    columns: 92,
    colour: true,
    unicode: true,
    interactive: true,
  });
});

test('a file or a pipe gets plain text of 80 columns', () => {
  expect(styleOf(file, env)).toEqual({
    columns: 80,
    colour: false,
    unicode: true,
    interactive: false,
  });
});

test.each([
  [undefined, 80],
  [0, 80],
  [10, 20],
  [40, 40],
  [100, 100],
  [240, 100],
])('a terminal of %s columns is written to with %i', (columns, expected) => {
  const stream = columns === undefined ? { isTTY: true } : { isTTY: true, columns };
  expect(styleOf(stream, env).columns).toBe(expected);
});

test.each([
  ['a terminal', terminal, {}, true],
  ['a terminal with NO_COLOR', terminal, { NO_COLOR: '1' }, false],
  ['a terminal with an empty NO_COLOR', terminal, { NO_COLOR: '' }, true],
  ['a dumb terminal', terminal, { TERM: 'dumb' }, false],
  ['a terminal with FORCE_COLOR=0', terminal, { FORCE_COLOR: '0' }, false],
  ['a terminal with both', terminal, { FORCE_COLOR: '1', NO_COLOR: '1' }, true],
  ['a pipe with FORCE_COLOR', file, { FORCE_COLOR: '1' }, true],
  ['a pipe with FORCE_COLOR=false', file, { FORCE_COLOR: 'false' }, false],
  ['a pipe with an empty FORCE_COLOR', file, { FORCE_COLOR: '' }, false],
])('colour on %s', (_, stream, more, expected) => {
  expect(styleOf(stream, { ...env, ...more }).colour).toBe(expected);
});

test.each([
  [{ LANG: 'C.utf8' }, true],
  [{ LANG: 'C' }, false],
  [{ LANG: 'en_GB.UTF-8', LC_ALL: 'C' }, false],
  [{ LANG: 'C', LC_CTYPE: 'en_GB.UTF-8' }, true],
  [{ LANG: 'en_GB.UTF-8', LC_ALL: '' }, true],
  [{}, false],
])('marks beyond ASCII with %j: %s', (locale, expected) => {
  expect(styleOf(terminal, locale).unicode).toBe(expected);
});

test.each([
  [{ CI: 'true' }, false],
  [{ CI: 'false' }, true],
  [{ TERM: 'dumb' }, false],
  [{ NO_COLOR: '1' }, true],
])('live lines on a terminal with %j: %s', (more, expected) => {
  expect(styleOf(terminal, { ...env, ...more }).interactive).toBe(expected);
});
