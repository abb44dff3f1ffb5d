import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

/** Words that make a sentence harder to read than PostgreSQL's documentation is, and what to write instead. */
const AVOIDED: readonly (readonly [RegExp, string])[] = [
  [/\btold\b/i, 'reported, shown, known'],
  [/\banew\b/i, 'again, or a verb with re-'],
  [/\bled to\b/i, 'redirected to, connected to, ended with'],
  // Not the user of that name on Unix, nor an address in an example.
  [/(?<!`)\bnobody\b(?!`|@)/i, 'no session, no user, or a passive verb'],
];

/** `where` for a condition: at the start of a clause with a comma, or before words that say whether something is possible or there. */
const CONDITION =
  /(?:^|[:;.|(] )where (?!to |safemigrate runs)[^,|]*,|\bwhere (?:it|they) can\b|\bwhere (?:possible|needed|neither|none|there (?:is|are|was|were))\b/;

const root = fileURLToPath(new URL('../..', import.meta.url));
const files = (folder: string, ending: string) =>
  readdirSync(path.join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith(ending))
    .map((name) => path.join(folder, name));
const read = (file: string) => readFileSync(path.join(root, file), 'utf8');

function avoidedIn(text: string): string[] {
  return AVOIDED.flatMap(([pattern, instead]) =>
    text
      .split('\n')
      .filter((line) => pattern.test(line))
      .map((line) => `${line.trim()}  (write: ${instead})`),
  );
}

/** The comments of a module, and what it prints: literals of several words, without the code in their placeholders. */
function sentencesOf(source: string): string {
  const found = source.match(
    /\/\*[\s\S]*?\*\/|\/\/.*|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\[\s\S])*`/g,
  );
  return (found ?? [])
    .filter((piece) => /\S \S/.test(piece))
    .map((piece) => (piece.startsWith('`') ? piece.replace(/\$\{[^}]*\}/g, '') : piece))
    .join('\n');
}

test('finds words in comments and messages, not in names', () => {
  const source =
    '/** It is told. */\nconst told = anew; // led to it\nprint(\'made anew\', "told it twice");';
  expect(avoidedIn(sentencesOf(source)).length).toBe(4);
  expect(avoidedIn(sentencesOf(`const told = \`a \${told} b\`;`))).toEqual([]);
});

/** Messages are literals that hold no SQL; in a comment `where` is rarely misread. */
function messagesOf(source: string): string {
  const found = source
    .replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '')
    .match(/'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\[\s\S])*`/g);
  return (found ?? [])
    .filter((piece) => /\S \S/.test(piece) && !/\bselect\b|\bfrom pg_|[=<>]/i.test(piece))
    .join('\n');
}

test('finds where for if, not where for a place', () => {
  for (const wrong of [
    'where it can be',
    'done: where sampled ones came, it is',
    'where neither works, it is refused',
  ])
    expect(wrong).toMatch(CONDITION);
  for (const right of ['the folder where it is', 'shows where', 'a column where values differ, and more'])
    expect(right).not.toMatch(CONDITION);
});

test('messages of src say if, not where, for a condition', () => {
  const found = files('src', '.ts').flatMap((file) =>
    messagesOf(read(file))
      .split('\n')
      .filter((line) => CONDITION.test(line.replace(/^['`]/, '')))
      .map((line) => `${file}: ${line.trim()}`),
  );
  expect(found).toEqual([]);
});

test('comments and messages of src have plain words', () => {
  const found = files('src', '.ts').flatMap((file) =>
    avoidedIn(sentencesOf(read(file))).map((line) => `${file}: ${line}`),
  );
  expect(found).toEqual([]);
});

test.each(['README.md', 'CHANGELOG.md', 'action.yml', ...files('docs', '.md'), ...files('templates', '')])(
  '%s has plain words',
  (file) => {
    expect(avoidedIn(read(file))).toEqual([]);
    expect(
      read(file)
        .split('\n')
        .filter((line) => CONDITION.test(line)),
    ).toEqual([]);
  },
);
