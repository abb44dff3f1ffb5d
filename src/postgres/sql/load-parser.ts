import { createRequire } from 'node:module';

/** PostgreSQL's own parser, compiled to WebAssembly. */
type Parser = typeof import('libpg-query');

const require = createRequire(import.meta.url);
let parser: Parser | undefined;

/** Loads the parser (2 MB) with the first call, because a run whose command sends no statement does not need it. */
export function loadParser(): Parser {
  parser ??= require(parserPath()) as Parser;
  return parser;
}

/** Returns the parser's file, for a thread that has no module resolution of its own. */
export function parserPath(): string {
  return require.resolve('libpg-query');
}
