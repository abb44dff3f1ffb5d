import { isUtf8 } from 'node:buffer';
import type { Worker } from 'node:worker_threads';
import { startThread } from '../../package.ts';
import { LARGEST_TEXT_BYTES } from '../protocol/frames.ts';
import { isDml, meansTheSameInBlock, roleOf } from './classify-statement.ts';
import { loadParser } from './load-parser.ts';
import { lockKindOf } from './lock-kind.ts';
import { inOlderGrammar, type OlderText } from './newer-grammar.ts';
import type { Role } from './statement-properties.ts';
import type { Node } from './tree.ts';

/** One statement of a client's text. */
export interface ParsedStatement {
  /** Where it stands in the text, in bytes; `to` is before the semicolon. */
  readonly from: number;
  readonly to: number;
  readonly node: Node;
  readonly role: Role;
  /** Sent alone, it does the same between BEGIN and COMMIT. */
  readonly wraps: boolean;
  /** Its normalized text, which the statements of a loop share; null for all but DML. */
  readonly shape: string | null;
  /** The text that it shares with the statements that take the same locks (lock-kind.ts); null if that cannot be said. */
  readonly lockKind: string | null;
  /** Its text is of the grammar of PostgreSQL 19: an older server answers all of it with a syntax error. */
  readonly newer: boolean;
}

interface RawStatement {
  readonly stmt?: Node;
  readonly stmt_location?: number;
  readonly stmt_len?: number;
}

/** Above this the parser would keep the other sessions waiting for more than a few milliseconds. */
const WORKER_FROM_BYTES = 16 * 1024;
const CACHED_TEXTS = 500;
const CACHED_TEXT_BYTES = 4096;

const cache = new Map<string, readonly ParsedStatement[] | null>();

/**
 * Parses a text by PostgreSQL's own parser. Returns null for a syntax error, no statement at all, or a text that is not UTF-8
 * or too large; such text is for the server itself to judge.
 */
export async function parseText(text: Buffer): Promise<readonly ParsedStatement[] | null> {
  if (text.length === 0 || text.length > LARGEST_TEXT_BYTES || !isUtf8(text)) return null;
  const sql = text.toString();
  const cached = cache.get(sql);
  if (cached !== undefined) return cached;
  const statements = (await parsed(text, sql)) ?? (await parsedAsNewer(text, sql));
  if (text.length <= CACHED_TEXT_BYTES) remember(sql, statements);
  return statements;
}

async function parsed(text: Buffer, sql: string, newer?: OlderText): Promise<ParsedStatement[] | null> {
  const words = newer?.sql ?? sql;
  const raw = await (text.length > WORKER_FROM_BYTES ? parseInWorker(words) : parseHere(words));
  return raw && raw.length > 0 ? raw.map((statement) => read(text, statement, newer)) : null;
}

async function parsedAsNewer(text: Buffer, sql: string): Promise<ParsedStatement[] | null> {
  // A text that has an unfinished literal has no tokens.
  const scanned = await loadParser()
    .scan(sql)
    .catch(() => undefined);
  const older = scanned && inOlderGrammar(sql, scanned.tokens);
  return older ? await parsed(text, sql, older) : null;
}

/** Returns the statements without repetitions of DML, which do what the first of their shape does. */
export function withoutRepetitions(statements: readonly ParsedStatement[]): readonly ParsedStatement[] {
  if (statements.length === 1) return statements;
  const shapes = new Set<string>();
  return statements.filter(({ shape }) => shape === null || (!shapes.has(shape) && shapes.add(shape)));
}

/** Returns a part of a text, given in bytes, without spacing around it. */
export function textOf(text: Buffer, from: number, to: number): string {
  return text.toString('utf8', from, to).trim();
}

function remember(sql: string, statements: readonly ParsedStatement[] | null): void {
  const [oldest] = cache.keys();
  if (oldest !== undefined && cache.size >= CACHED_TEXTS) cache.delete(oldest);
  cache.set(sql, statements);
}

function read(text: Buffer, raw: RawStatement, newer: OlderText | undefined): ParsedStatement {
  // The parser leaves out a location of 0, and a length that reaches to the end.
  const from = raw.stmt_location ?? 0;
  const to = raw.stmt_len ? from + raw.stmt_len : text.length;
  const node = newer ? newerNode(raw.stmt ?? {}, newer, from, to) : (raw.stmt ?? {});
  const lockKind = lockKindOf(node, text.toString('utf8', from, to));
  return {
    from,
    to,
    node,
    role: roleOf(node),
    wraps: meansTheSameInBlock(node),
    shape: isDml(node) ? lockKind : null,
    lockKind,
    newer: newer !== undefined,
  };
}

function newerNode(node: Node, { nodes }: OlderText, from: number, to: number): Node {
  const [, make] = [...nodes].find(([position]) => position >= from && position < to) ?? [];
  return make?.(node) ?? node;
}

async function parseHere(sql: string): Promise<readonly RawStatement[] | null> {
  const parser = loadParser();
  try {
    return ((await parser.parse(sql)).stmts as RawStatement[] | undefined) ?? [];
  } catch {
    return null;
  }
}

let worker: Worker | undefined;
let lastId = 0;
const waiting = new Map<number, (stmts: readonly RawStatement[] | null) => void>();

function parseInWorker(sql: string): Promise<readonly RawStatement[] | null> {
  worker ??= startWorker();
  const id = ++lastId;
  const answer = new Promise<readonly RawStatement[] | null>((resolve) => waiting.set(id, resolve));
  worker.postMessage({ id, sql });
  return answer;
}

function startWorker(): Worker {
  const started = startThread('postgres/sql/parser-thread', { name: 'safemigrate parser' });
  started.on('message', ({ id, stmts }: { id: number; stmts: readonly RawStatement[] | null }) => {
    waiting.get(id)?.(stmts);
    waiting.delete(id);
  });
  // A text that crashes the parser counts as one that it did not accept.
  started.on('error', () => {
    worker = undefined;
    for (const answer of waiting.values()) answer(null);
    waiting.clear();
  });
  // It must not keep the process alive; while a text is parsed, the client's socket does.
  started.unref();
  return started;
}
