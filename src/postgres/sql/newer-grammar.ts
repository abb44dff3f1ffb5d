import type * as Tree from 'libpg-query';

/*
 * Statements and clauses that only the grammar of PostgreSQL 19 has, for a parser of 18. Each is written in words of the older
 * grammar that are as long, so that the positions in the text stay, and the statements get the nodes of the newer grammar afterwards.
 * A clause that says nothing of locks, effects or calls is left out. A parser of 19 will take the place of this file.
 */

type Node = Readonly<Record<string, unknown>>;

/** Statements of the newer grammar, as its parser writes them. */
export type NewerNode = { RepackStmt: RepackStmt } | { WaitStmt: WaitStmt };

export interface RepackStmt {
  readonly relation?: Tree.VacuumRelation;
  readonly indexname?: string;
  readonly usingindex?: boolean;
  readonly params?: Tree.Node[];
}

export interface WaitStmt {
  readonly lsn_literal?: string;
}

/** A text in words of the older grammar. */
export interface OlderText {
  readonly sql: string;
  /** Makes the node of the newer grammar of a statement in the older one, by the position of its first word in bytes. */
  readonly nodes: ReadonlyMap<number, (node: Node) => Node>;
}

export interface ScannedToken {
  readonly start: number;
  readonly end: number;
}

interface Word {
  /** In upper case. */
  readonly text: string;
  readonly written: string;
  readonly from: number;
  readonly to: number;
}

/** Bytes of a statement that are written otherwise. */
interface Change {
  readonly from: number;
  readonly to: number;
  /** At most as long; by default nothing but spaces. */
  readonly words?: string;
}

interface Reading {
  readonly changes: readonly Change[];
  readonly node?: (node: Node) => Node;
}

/** Returns the text in the older grammar; undefined if no part of it is known to be of the newer one. */
export function inOlderGrammar(sql: string, tokens: readonly ScannedToken[]): OlderText | undefined {
  const bytes = Buffer.from(sql);
  const nodes = new Map<number, (node: Node) => Node>();
  let changed = false;
  for (const words of statementsOf(bytes, tokens)) {
    const { changes, node } = readingOf(words);
    for (const { from, to, words: other = '' } of changes) {
      bytes.fill(' ', from, to);
      bytes.write(other, from);
      changed = true;
    }
    if (node) nodes.set(words[0]?.from ?? 0, node);
  }
  return changed ? { sql: bytes.toString(), nodes } : undefined;
}

function statementsOf(bytes: Buffer, tokens: readonly ScannedToken[]): Word[][] {
  const statements: Word[][] = [[]];
  for (const { start, end } of tokens) {
    const text = bytes.toString('utf8', start, end);
    if (text.startsWith('--') || text.startsWith('/*')) continue;
    if (text === ';') statements.push([]);
    else statements.at(-1)?.push({ text: text.toUpperCase(), written: text, from: start, to: end });
  }
  return statements.filter(({ length }) => length > 0);
}

function readingOf(words: readonly Word[]): Reading {
  const [first, second, third] = words.map(({ text }) => text);
  if (first === 'REPACK') return ofRepack(words);
  if (first === 'WAIT' && second === 'FOR')
    return {
      changes: [{ from: words[0]?.from ?? 0, to: words.at(-1)?.to ?? 0, words: 'CHECKPOINT' }],
      node: () => ({ WaitStmt: { lsn_literal: words[3]?.written.slice(1, -1) ?? '' } }),
    };
  if (first === 'CHECKPOINT') return { changes: parenthesized(words, 1) };
  if (second === 'PUBLICATION' || third === 'PUBLICATION') return { changes: ofPublication(words) };
  return { changes: [...groupedByAll(words), ...selectedOnConflict(words), ...portions(words)] };
}

/** VACUUM has as many letters, and the same options and tables. */
function ofRepack(words: readonly Word[]): Reading {
  const using = words.findIndex(({ text }, at) => text === 'USING' && words[at + 1]?.text === 'INDEX');
  const [start, end] = [words[0], words.at(-1)];
  const index = using === -1 ? undefined : nameIn(words[using + 2]);
  const ordered = using === -1 ? [] : [{ from: words[using]?.from ?? 0, to: end?.to ?? 0 }];
  return {
    changes: [{ from: start?.from ?? 0, to: start?.to ?? 0, words: 'VACUUM' }, ...ordered],
    node: ({ VacuumStmt }) => {
      const { rels, options } = VacuumStmt as Tree.VacuumStmt;
      const [relation] = rels ?? [];
      return {
        RepackStmt: {
          usingindex: using !== -1,
          ...(index !== undefined && { indexname: index }),
          ...(relation && 'VacuumRelation' in relation && { relation: relation.VacuumRelation }),
          ...(options && { params: options }),
        },
      };
    },
  };
}

/** Reads a name as the parser would: quoted, or folded to lower case. */
function nameIn(word: Word | undefined): string | undefined {
  if (!word?.written.startsWith('"')) return word?.written.toLowerCase();
  return word.written.slice(1, -1).replaceAll('""', '"');
}

/** FOR ALL SEQUENCES, and EXCEPT behind ALL TABLES. */
function ofPublication(words: readonly Word[]): Change[] {
  return words.flatMap(({ text, from }, at) => {
    const next = words[at + 1];
    if (text === 'EXCEPT') return [{ from, to: next?.to ?? from }, ...parenthesized(words, at + 1)];
    if (text !== 'ALL' || next?.text !== 'SEQUENCES') return [];
    const before = words[at - 1];
    if (before?.text === ',') return [{ from: before.from, to: next.to }];
    if (words[at + 2]?.text === ',') return [{ from, to: words[at + 2]?.to ?? next.to }];
    return [{ from, to: next.to, words: 'ALL TABLES' }];
  });
}

const BEHIND_GROUP_BY = new Set(
  ') HAVING WINDOW ORDER LIMIT OFFSET FETCH FOR UNION INTERSECT EXCEPT RETURNING'.split(' '),
);

function groupedByAll(words: readonly Word[]): Change[] {
  return words.flatMap(({ text, from }, at) => {
    const [by, all, next] = words.slice(at + 1, at + 4);
    const isIt = text === 'GROUP' && by?.text === 'BY' && all?.text === 'ALL';
    return isIt && (next === undefined || BEHIND_GROUP_BY.has(next.text)) ? [{ from, to: all.to }] : [];
  });
}

/** ON CONFLICT … DO SELECT. One with a condition is left alone, since that may call something. */
function selectedOnConflict(words: readonly Word[]): Change[] {
  return words.flatMap(({ text, from }, at) => {
    if (text !== 'ON' || words[at + 1]?.text !== 'CONFLICT') return [];
    const action = words.findIndex((word, to) => to > at && word.text === 'DO');
    const end = words.findIndex((word, to) => to > action && word.text === 'RETURNING');
    const between = words.slice(action + 1, end);
    if (action === -1 || end === -1 || between[0]?.text !== 'SELECT') return [];
    return between.some((word) => word.text === 'WHERE') ? [] : [{ from, to: between.at(-1)?.to ?? from }];
  });
}

const BEHIND_PORTION = new Set('AS SET WHERE USING RETURNING'.split(' '));

/** FOR PORTION OF of UPDATE and DELETE. One that may call something is left alone. */
function portions(words: readonly Word[]): Change[] {
  return words.flatMap(({ text, from }, at) => {
    if (text !== 'FOR' || words[at + 1]?.text !== 'PORTION') return [];
    const end = words.findIndex((word, to) => to > at && BEHIND_PORTION.has(word.text));
    const between = words.slice(at, end === -1 ? undefined : end);
    return between.some((word) => word.text === '(') ? [] : [{ from, to: between.at(-1)?.to ?? from }];
  });
}

/** Returns the first parentheses from this word on, with their content. */
function parenthesized(words: readonly Word[], at: number): Change[] {
  const opening = words.findIndex(({ text }, from) => from >= at && text === '(');
  const closing = words.findIndex(({ text }, to) => to > opening && text === ')');
  if (opening === -1 || closing === -1) return [];
  return [{ from: words[opening]?.from ?? 0, to: words[closing]?.to ?? 0 }];
}
