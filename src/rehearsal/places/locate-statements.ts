import path from 'node:path';
import type { Hazard, StatementSection } from '../../model/report.ts';
import type { SentText } from '../../observe/statements.ts';
import type { CommandPlan } from '../plan.ts';
import { recordedFiles } from './recorded-files.ts';
import { PROPOSAL_HEADING, readSource, sourceFiles } from './source-files.ts';

/** Limit for all files together. */
const MAX_BYTES_READ = 64 * 1024 * 1024;
/** A longer search would be felt, and the clone waits for it. */
const SEARCH_MS = 2_000;
/** Shorter statements, such as `COMMIT`, are in every file. */
const SHORTEST = 15;

/** The place of a statement in the working folder. */
interface Place {
  readonly file: string;
  readonly line?: number;
}

/** A statement to be found, by its words in lower case. */
interface Wanted {
  readonly index: number;
  readonly words: string;
}

/**
 * Adds `file` and `line` to the statements that a reader looks up: those of hazards, and those that failed. A file that the tool's
 * history names is the one; otherwise the files are searched for the text, in which whitespace may differ: first those that the
 * command names, and the ways back last. Of several places the first one counts, and in a very large tree not all are searched.
 * @param sent the statements with the values of their parameters, which may name a migration.
 */
export async function locateStatements(
  statements: readonly StatementSection[],
  hazards: readonly Pick<Hazard, 'statement'>[],
  sent: ReadonlyMap<number, SentText>,
  { argv, folder }: Pick<CommandPlan, 'argv' | 'folder'>,
): Promise<StatementSection[]> {
  const numbers = new Set(hazards.map(({ statement }) => statement));
  const looked = statements.filter(({ index, error }) => numbers.has(index) || error !== null);
  if (looked.length === 0) return [...statements];
  const { named: ofCommand, others: unnamed } = byCommand(await sourceFiles(folder), argv.join(' '));
  const files = [...ofCommand, ...unnamed];
  const named = await recordedFiles(statements, sent, files);
  const wanted = looked.map(({ index, sql }) => ({ index, words: squeezed(sql).text }));
  const places = new Map<number, Place>();
  for (const file of new Set(named.values())) {
    const own = wanted.filter(({ index }) => named.get(index) === file);
    for (const { index } of own) places.set(index, { file });
    for (const [index, place] of await search(own, [file], folder)) places.set(index, place);
  }
  const others = wanted.filter(({ index }) => !named.has(index));
  for (const [index, place] of await search(others, ofCommand, folder)) places.set(index, place);
  const left = others.filter(({ index }) => !places.has(index));
  for (const [index, place] of await search(left, unnamed, folder, isProposal)) places.set(index, place);
  return statements.map((statement) => withPlace(statement, places.get(statement.index)));
}

/** The way back of a migration: `003_paid.down.sql`, `003/down.sql`. */
const DOWN = /(?:^|[./_-])down\.[^/]*$/i;

/** Divides files into those that the command names, with those first that it names with their folder, and the others with the ways back last. */
function byCommand(files: readonly string[], command: string): { named: string[]; others: string[] } {
  const isNamed = (name: string) =>
    command.split(name).some((before, at, parts) => {
      const after = parts[at + 1];
      return after !== undefined && !/[\w.-]$/.test(before) && !/^[\w.-]/.test(after);
    });
  const isDown = (file: string) => DOWN.test(path.basename(file)) && !isNamed(file);
  const whole = files.filter(isNamed);
  const last = files.filter((file) => !whole.includes(file) && isNamed(path.basename(file)));
  const named = whole.length > 0 ? whole : last;
  const others = files.filter((file) => !named.includes(file));
  return { named, others: [...others.filter((file) => !isDown(file)), ...others.filter(isDown)] };
}

/** Tells if a text was written by --propose: it has the statements of a migration, and is not where they came from. */
function isProposal(text: string): boolean {
  return text.startsWith(`-- ${PROPOSAL_HEADING}`);
}

function withPlace(statement: StatementSection, place: Place | undefined): StatementSection {
  if (place === undefined) return statement;
  const file = place.file.split(path.sep).join('/');
  return { ...statement, file, ...(place.line === undefined ? undefined : { line: place.line }) };
}

async function search(
  statements: readonly Wanted[],
  files: readonly string[],
  folder: string,
  isPassedOver: (text: string) => boolean = () => false,
): Promise<Map<number, Place>> {
  const wanted = statements.filter(({ words }) => words.length >= SHORTEST);
  const found = new Map<number, Place>();
  const until = Date.now() + SEARCH_MS;
  let bytes = 0;
  for (const file of files) {
    if (found.size === wanted.length || bytes > MAX_BYTES_READ || Date.now() > until) break;
    const text = await readSource(folder, file);
    bytes += text.length;
    if (isPassedOver(text)) continue;
    // Positions are looked up only in the few files that hold a statement.
    const plain = text.toLowerCase().replaceAll(/\s+/g, ' ');
    const held = wanted.filter(({ index, words }) => !found.has(index) && plain.includes(words));
    const { text: squeezedText, offsets } = held.length > 0 ? squeezed(text) : { text: '', offsets: [] };
    for (const { index, words } of held) {
      const at = squeezedText.indexOf(words);
      if (at === -1) continue;
      found.set(index, { file, line: text.slice(0, offsets[at]).split('\n').length });
    }
  }
  return found;
}

/** Returns the text in lower case with single blanks, and the original position of each character. */
function squeezed(text: string): { text: string; offsets: number[] } {
  const offsets: number[] = [];
  let result = '';
  for (const match of text.matchAll(/\s+|\S/g)) {
    const blank = /^\s/.test(match[0]);
    if (blank && (result === '' || result.endsWith(' '))) continue;
    result += blank ? ' ' : match[0].toLowerCase().slice(0, 1);
    offsets.push(match.index);
  }
  return { text: result.replace(/[\s;]+$/, ''), offsets };
}
