import { createRequire } from 'node:module';

/** PostgreSQL's own parser, compiled to WebAssembly. */
type Parser = typeof import('libpg-query');

const require = createRequire(import.meta.url);
let parser: Parser | undefined;

/** Loads the parser (2 MB) with the first call, because a run whose command sends no statement does not need it. */
export function loadParser(): Parser {
  parser ??= require('libpg-query') as Parser;
  return parser;
}
