import { type CodeReader, CodeScanner } from '../postgres/sql/code-scanner.ts';
import {
  ACTS_ON_SERVER,
  NAMES_OF_SETTINGS_BEYOND,
  ROLES,
  TOUCHES_FILES,
} from '../postgres/sql/kinds/cluster-objects.ts';
import type { ServerCall, ServerCalls } from './server-calls.ts';

/** Objects that databases share, by the words behind CREATE, ALTER, DROP and ON. */
const SHARED: ReadonlySet<string> = new Set([
  ...['role', 'user', 'group', 'database', 'tablespace', 'subscription', 'parameter'],
]);
/** Pairs of words that only statements have which act beyond their database: by the second word, the first ones, and why. */
const PAIRS: ReadonlyMap<string, readonly [first: ReadonlySet<string>, why: string]> = new Map(
  (
    [
      ...[...SHARED].map((word) => [word, ['create', 'alter', 'drop'], ROLES] as const),
      // CREATE SUBSCRIPTION … SERVER, from version 19 on, is never read.
      ['subscription', ['create', 'alter', 'drop'], 'it connects to the publisher'],
      ['system', ['alter', 'reindex'], ACTS_ON_SERVER],
      ['schema', ['reindex'], ACTS_ON_SERVER],
      ['database', ['create', 'alter', 'drop', 'reindex'], ACTS_ON_SERVER],
      ['owned', ['reassign', 'drop'], ROLES],
      ['program', ['to', 'from'], TOUCHES_FILES],
      ['c', ['language'], TOUCHES_FILES],
    ] as const
  ).map(([second, first, why]) => [second, [new Set<string>(first), why]]),
);
const ON_OBJECTS: ReadonlySet<string> = new Set(['comment', 'grant', 'revoke', 'security']);
const OUT_OF_SERVER = /program|tablespace|subscription|language/;
const CHANGES: ReadonlySet<string> = new Set(
  'insert update delete merge truncate copy lock vacuum reindex cluster repack'.split(' '),
);
const SETTINGS: ReadonlySet<string> = new Set(NAMES_OF_SETTINGS_BEYOND);
const BODIES: ReadonlySet<string> = new Set(['function', 'procedure']);

/**
 * Finds what a text would do beyond the clone that the parser does not read: it is too large, or of another grammar. It uses the
 * words of its statements outside of comments and literals, but within the bodies of DO and of functions.
 */
export class UnreadCode implements CodeReader {
  readonly #calls: ServerCalls;
  readonly #scanner = new CodeScanner(this);
  readonly #forbidden: ReadonlySet<string>;
  readonly #matters: (call: ServerCall) => boolean;
  #found: ServerCall | undefined;
  /** The words of the statement that matter, and the last two tokens. */
  #head = '';
  #changes = false;
  #named = false;
  #runs = false;
  /** Number of the bodies around the token. */
  #depth = 0;
  #before = '';
  #last = '';
  #lastIsWord = false;

  /** @param options.forbidden words that the text must not have either. @param options.matters tells if a call does here. */
  constructor(
    calls: ServerCalls,
    options: { readonly forbidden: ReadonlySet<string>; readonly matters: (call: ServerCall) => boolean },
  ) {
    this.#calls = calls;
    this.#forbidden = options.forbidden;
    this.#matters = options.matters;
  }

  /** Takes the next part of the text. @returns the first thing that was found so far. */
  push(bytes: Buffer): ServerCall | undefined {
    if (!this.#found) this.#scanner.push(bytes);
    return this.#found;
  }

  /** Takes the end of the text. */
  end(): ServerCall | undefined {
    if (!this.#found) this.#scanner.end();
    // The last word may be a name that the next token would have ended.
    this.token(';');
    return this.#found;
  }

  enters(): boolean {
    if (this.#runs) this.#depth++;
    return this.#runs;
  }

  leave(): void {
    this.#depth--;
    this.#last = '';
  }

  token(text: string): void {
    const isWord = beginsWord(text);
    if (isWord || this.#lastIsWord) {
      const call = this.#found ? undefined : this.#judge(text);
      if (call && this.#matters(call)) this.#found = call;
    }
    if (text === ';') this.#begin();
    else if (isWord) this.#note(text);
    this.#before = this.#last;
    this.#last = text;
    this.#lastIsWord = isWord;
  }

  #note(word: string): void {
    this.#head ||= word;
    this.#changes ||= CHANGES.has(word);
    this.#named ||= word === 'on';
    this.#runs ||= this.#head === 'do' || (this.#head === 'create' && BODIES.has(word));
  }

  #begin(): void {
    this.#changes = false;
    // The statements of a body are part of the one that holds it.
    if (this.#depth > 0) return;
    this.#head = '';
    this.#runs = false;
    this.#named = false;
  }

  #judge(text: string): ServerCall | undefined {
    const [head, last] = [this.#head, this.#last];
    if (text === 'u&"') return beyond('a name in escapes', 'it may be any name');
    if (this.#forbidden.has(text)) return beyond(text, 'it might let the session write');
    const [first, why] = PAIRS.get(last) ?? [];
    // CREATE USER MAPPING belongs to its database.
    if (first?.has(this.#before) && !(last === 'user' && text === 'mapping'))
      return beyond(`${this.#before} ${last}`, why ?? '');
    if (last === 'on' && ON_OBJECTS.has(head) && SHARED.has(text)) return beyond(`${head} on ${text}`, ROLES);
    const ends = text === 'to' || text === 'from';
    if (ends && (head === 'grant' || head === 'revoke') && !this.#named)
      return beyond(`${head} of a role`, ROLES);
    if (text === "'" && head === 'copy' && (last === 'to' || last === 'from'))
      return beyond('copy of a file', TOUCHES_FILES);
    if (head === 'load' && last === 'load' && text === "'") return beyond('load', TOUCHES_FILES);
    if (head === 'vacuum' && text === 'full') return beyond('vacuum full', ACTS_ON_SERVER);
    // Without a table it is of all of them; options in a body are not read.
    if (last === 'repack' && (text === ';' || (text === '(' && this.#depth > 0)))
      return beyond('repack', ACTS_ON_SERVER);
    if (head === 'repack' && text === 'concurrently') return beyond('repack (concurrently)', ACTS_ON_SERVER);
    if (SETTINGS.has(last)) return beyond(last, TOUCHES_FILES);
    return this.#lastIsWord ? this.#ofName(last, text) : undefined;
  }

  /** Returns what a call of a function, or a use of a relation of this name does. */
  #ofName(name: string, next: string): ServerCall | undefined {
    const any = { schema: null, name };
    if (next === '(') {
      const call = this.#calls.called(any, undefined);
      if (call) return call;
    }
    return (
      (this.#changes ? this.#calls.relation(any, 'write') : undefined) ?? this.#calls.relation(any, 'read')
    );
  }
}

/** Tells a word or a name from punctuation, literals and numbers. */
function beginsWord(text: string): boolean {
  const code = text.charCodeAt(0) | 0x20;
  return (code >= 0x61 && code <= 0x7a) || code === 0x7f || code >= 0x80;
}

function beyond(words: string, why: string): ServerCall {
  const leaves = why === TOUCHES_FILES || OUT_OF_SERVER.test(words) ? 'server' : 'database';
  return { what: `${words.toUpperCase()} in a text that cannot be read`, why, leaves };
}
