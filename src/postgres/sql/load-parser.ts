import { createRequire } from 'node:module';
import { setFlagsFromString } from 'node:v8';

/** PostgreSQL's own parser, compiled to WebAssembly. */
type Parser = typeof import('libpg-query');

/**
 * How much is parsed before V8 optimises the parser, in V8's unit: some hundred statements. By default it would with the first
 * one, since the grammar is one function of 100 kB. That takes 0.1 s of a processor with Node 20 and more than a second with
 * Node 24, for which the process waits before it exits; and what is gained by it is 0.05 ms a statement.
 */
const TIERING_BUDGET = 500_000_000;

const require = createRequire(import.meta.url);
let parser: Parser | undefined;

/** Loaded with the first call: 2 MB, which a run that never sees a statement need not have. */
export function loadParser(): Parser {
  parser ??= require(parserPath()) as Parser;
  return parser;
}

/** Where a thread finds it that has none of our modules. */
export function parserPath(): string {
  setFlagsFromString(`--wasm-tiering-budget=${TIERING_BUDGET}`);
  return require.resolve('libpg-query');
}
