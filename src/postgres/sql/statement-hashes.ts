import { createHash } from 'node:crypto';
import { normalizeSql } from './normalize.ts';

/** Returns the hash of a statement without its literals, comments and spacing. */
export function shapeHash(sql: string): string {
  return shortHash(normalizeSql(sql));
}

/** Tools make up the names of cursors and prepared statements. */
const NAME_OF_SESSION = /^(DECLARE|PREPARE) (?:"(?:[^"]|"")*"|[^\s("]+)/i;

/**
 * Returns the hash of a statement's shape in which any number of values in a row, and of rows, is like one: batches differ. The
 * name that DECLARE or PREPARE gives is left out.
 */
export function likenessHash(sql: string): string {
  const values = normalizeSql(sql)
    .replace(NAME_OF_SESSION, '$1 ?')
    .replace(/\$\d+/g, '?')
    .replace(/\?(?: ?, ?\?)+/g, '?');
  return shortHash(`like ${values.replace(/(\([^()]*\))(?: ?, ?\1)+/g, '$1')}`);
}

/** Returns a hash of 132 bits. */
export function shortHash(text: string): string {
  return createHash('sha256').update(text).digest('base64url').slice(0, 22);
}
