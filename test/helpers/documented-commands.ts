import { flagSource } from '../../src/cli/options/config.ts';
import { readValues } from '../../src/cli/options/read-values.ts';
import { MODE_SETTINGS } from '../../src/cli/options/run-table.ts';
import { subcommands } from '../../src/cli/options/subcommand-table.ts';
import { readWords } from '../../src/cli/program.ts';
import { splitWords } from '../../src/cli/split-arguments.ts';
import { SafemigrateError } from '../../src/errors.ts';

/** A fenced block of code in a page. */
export interface CodeBlock {
  readonly language: string;
  readonly text: string;
  /** Of its first line of text, from 1. */
  readonly line: number;
}

const FENCED = /^( *)```(\w*)\n([\s\S]*?)^\1```$/gm;

export function codeBlocksOf(page: string): CodeBlock[] {
  return [...page.matchAll(FENCED)].map(({ 1: indent = '', 2: language = '', 3: text = '', index }) => ({
    language,
    text: text.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
    line: page.slice(0, index).split('\n').length + 1,
  }));
}

/** What is code by its indentation alone, and has no language. */
export function indentedCodeOf(page: string): string[] {
  const prose = page.replace(FENCED, '').split('\n');
  return prose.filter((line, at) => /^ {4,}\S/.test(line) && (prose[at - 1] ?? '').trim() === '');
}

/** Everything in a page that a shell would run, and the calls of safemigrate among what is shown as text. */
export function shellOf(page: string): string {
  const lines = ({ language, text }: CodeBlock) =>
    language === 'sh' ? [text] : language === 'text' ? text.split('\n').filter(isCall) : [];
  return codeBlocksOf(page).flatMap(lines).join('\n');
}

function isCall(line: string): boolean {
  return /^(?:\$ )?safemigrate /.test(line);
}

/** The options that a page's prose names, those of the commands after ` -- ` left out. */
export function inlineOptionsOf(page: string): string[] {
  const spans = [...page.replace(FENCED, '').matchAll(/`([^`\n]+)`/g)].map(([, span = '']) => span);
  return spans.flatMap((span) => span.replace(/ -- .*/, '').match(/(?<![\w-])--[a-z][a-z-]*/g) ?? []);
}

/** The calls of safemigrate in a page's prose, of which the command may be left out: `safemigrate apply`. */
export function inlineCallsOf(page: string): string[][] {
  const spans = [...page.replace(FENCED, '').matchAll(/`(?:npx )?(safemigrate [^`]+)`/g)];
  return spans
    .flatMap(([, span = '']) => callsIn(span))
    .map((argv) => (argv.at(-1) === '--' ? [...argv, 'true'] : argv))
    .map((argv) =>
      argv.includes('--') || !/^(?:--.*|apply|swap)$/.test(argv[0] ?? '') ? argv : [...argv, '--', 'true'],
    );
}

/** Returns the arguments of each call of safemigrate in lines of shell, up to a pipe, a redirection or a comment. */
export function callsIn(shell: string): string[][] {
  return (
    shell
      .replace(/\\\n\s*/g, ' ')
      .split('\n')
      // A comment, or what a column beside the commands says of them.
      .map((line) => line.replace(/\s#.*|(?<=\S) {3,}(?=\S).*/, ''))
      .flatMap((line) =>
        [
          ...line.matchAll(
            /(?:^|&&|\|\||[;|(]|\bthen|\belse|\bif|!|\bexec|\bnpx|\$ )\s*(?:\w+=\S+ )*(?:\S*\/)?safemigrate(?= |$)/g,
          ),
        ].map(({ index, 0: { length } }) => wordsOf(line.slice(index + length))),
      )
  );
}

/** The words of one simple command, as a shell separates them. */
function wordsOf(text: string): string[] {
  const words: string[] = [];
  for (const [word, quoted, ended] of text.matchAll(
    /((?:"[^"]*"|'[^']*'|[^\s"'|;&<>()#]|(?<=\S)#|<[\w -]+>)+)|\s+|([\s\S])/g,
  )) {
    if (ended !== undefined) break;
    if (quoted !== undefined) words.push(word.replace(/"([^"]*)"|'([^']*)'/g, '$1$2'));
  }
  return words;
}

/** Parses a call as the program does. @returns what is wrong with it, or undefined. */
export function mistakeIn(argv: readonly string[]): string | undefined {
  const { own, command } = splitWords(argv);
  // Omissions, and forms that stand for several.
  if (own.includes('--help')) return undefined;
  const words = own.filter((word) => !/^(?:…|\.\.\.|\[.*\]|<.*>)$/.test(word));
  try {
    const asked = readWords(words, command !== undefined);
    if (asked === 'shown') return undefined;
    if (asked.action === 'rehearse' || asked.action === 'apply' || asked.action === 'swap') {
      if (command === undefined || command.length === 0) return 'There is no command.';
      const tree = MODE_SETTINGS[asked.action];
      readValues(tree, [], [flagSource(tree, asked.values)]);
      return undefined;
    }
    const { options } = new Map(subcommands()).get(asked.action) ?? {};
    if (options !== undefined) readValues(options, [], [flagSource(options, asked.values)]);
    return undefined;
  } catch (error) {
    if (!(error instanceof SafemigrateError)) throw error;
    return error.message;
  }
}
