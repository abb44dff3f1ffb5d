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

/** The doc comments of a module, without their decoration. */
function docCommentsOf(source: string): string[] {
  return [...source.matchAll(/\/\*\*([\s\S]*?)\*\//g)].map(([, text]) =>
    (text ?? '').replace(/^\s*\* ?/gm, '').trim(),
  );
}

/** Beginnings that leave a comment without a subject; a noun phrase or a verb in the third person ("Returns …") goes there. */
const HEADLESS = /^(?:What|Whatever|Whoever|Of|Those|Whose|Whether|By what|For what|As)\b/;

/** Ways to say something that a reader has to take apart, outside of names and code. */
const TWISTED: readonly RegExp[] = [
  /\bwhat (?:it|they|is|was|the \w+)\b/gi,
  /\bof (?:its|their|our) own\b/gi,
  /\b(?:is|are) to be\b/gi,
  /\bis no \w+/gi,
  /\b(?:whatever|whoever|somebody|anybody|everybody)\b/gi,
  /\bgo(?:es)? (?:on|by)\b|\bgone\b/gi,
  /\bstands?\b|\blies?\b/gi,
  /\bits like\b|\bas it came\b|\bby itself\b/gi,
  /\bput (?:together|down)\b|\bmend\b/gi,
  /\b(?:null|undefined) where\b/gi,
  /\bthere is to be\b|\bas it is\b|\bfrom where\b/gi,
];

const MOST_WORDS = 35;

/** The sentences of a page: its paragraphs and list items, without code blocks, tables, headings and generated parts. */
function proseOf(page: string): string[] {
  return page
    .replace(/^```[\s\S]*?^```/gm, '')
    .replace(/<!--[\s\S]*?-->/g, '')
    .split(/\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )/)
    .filter((block) => !/^\s*[|#<!]/.test(block))
    .flatMap((block) =>
      block
        .replace(/\]\([^)]*\)/g, ']')
        .replace(/\s+/g, ' ')
        .split(/(?<=[.!?:;])\s+(?=[^a-z])/),
    );
}

const tooLong = (sentence: string) =>
  sentence.split(' ').filter((word) => /\w/.test(word)).length > MOST_WORDS;
const twistedIn = (text: string) =>
  TWISTED.reduce((count, pattern) => count + (text.match(pattern)?.length ?? 0), 0);
const PROSE_PAGES = [
  'README.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  ...files('docs', '.md').filter((name) => !/docs.hazards.|benchmarks/.test(name)),
];

test('finds comments without a subject, long sentences and twisted ones', () => {
  const comments = docCommentsOf(
    '/** What it is. */\n/**\n * Of the others.\n */\n/** Returns what it is. */',
  );
  expect(comments.filter((comment) => HEADLESS.test(comment))).toEqual(['What it is.', 'Of the others.']);
  const long = `${'word '.repeat(36)}end.`;
  expect(proseOf(`# Title\n\n${long} Short one.\n\n- ${long}\n\n| ${long} |\n`).filter(tooLong)).toHaveLength(
    2,
  );
  expect(twistedIn('It is to be what it is, whoever goes by it.')).toBe(4);
});

/**
 * How many there still are. A number may only fall: lower it together with the change that brings it down.
 */
const BUDGETS = {
  'doc comments without a subject': 0,
  'sentences of more than 35 words on the pages': 66,
  'twisted phrases in comments and messages of src': 1130,
  'twisted phrases on the pages': 160,
};

test.each<[keyof typeof BUDGETS, () => number]>([
  [
    'doc comments without a subject',
    () =>
      files('src', '.ts').flatMap((file) =>
        docCommentsOf(read(file)).filter((comment) => HEADLESS.test(comment)),
      ).length,
  ],
  [
    'sentences of more than 35 words on the pages',
    () => PROSE_PAGES.flatMap((page) => proseOf(read(page)).filter(tooLong)).length,
  ],
  [
    'twisted phrases in comments and messages of src',
    () => files('src', '.ts').reduce((sum, file) => sum + twistedIn(sentencesOf(read(file))), 0),
  ],
  [
    'twisted phrases on the pages',
    () => PROSE_PAGES.reduce((sum, page) => sum + twistedIn(proseOf(read(page)).join('\n')), 0),
  ],
])('%s do not become more', (name, count) => {
  expect(count()).toBeLessThanOrEqual(BUDGETS[name]);
});
