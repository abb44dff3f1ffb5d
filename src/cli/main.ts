#!/usr/bin/env node
import module from 'node:module';
import path from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { toolVersion } from '../package.ts';
import { homeFolder } from '../postgres/connection/environment.ts';
import { splitWords } from './split-arguments.ts';

/**
 * How much SQL is parsed before V8 optimises the parser's WebAssembly, in V8's unit: some hundred statements. By default V8
 * starts with the first statement, since the grammar is one function of 100 kB; that takes 0.1 s of a processor with Node 20
 * and more than a second with Node 24, and the process waits for it before it exits. The gain would be 0.05 ms a statement.
 */
const WASM_TIERING_BUDGET = 500_000_000;

/**
 * How much of a function runs before V8 optimises it, in V8's unit, of which its default is about 70,000. Most of a rehearsal's code runs a
 * few times: other threads of Node 20 would take a tenth of the run's processor time to optimise functions that are then not called
 * again. Later versions wait longer, and do not know this setting.
 */
const TIERING_BUDGET = 1_000_000;

/** Node has it from version 22.1 on. Its default folder is in /tmp, where another user could have put compiled code. */
const { enableCompileCache } = module as { enableCompileCache?: (folder: string) => unknown };

/**
 * Runs the process: argv in, exit code out. Everything beyond the version is loaded when it is needed, because a tool in a
 * deploy script is started more often than it is used. What concerns the whole process is set here and nowhere else, so that a
 * program that imports the library keeps its own settings.
 */
async function main(): Promise<number> {
  const words = splitWords(process.argv.slice(2));
  if (words.own.length === 1 && words.own[0] === '--version') {
    process.stdout.write(`${toolVersion()}\n`);
    return 0;
  }
  setFlagsFromString(`--wasm-tiering-budget=${WASM_TIERING_BUDGET}`);
  if (process.versions.node.startsWith('20.')) setFlagsFromString(`--interrupt-budget=${TIERING_BUDGET}`);
  enableCompileCache?.(cacheFolder());
  const { dispatch } = await import('./dispatch.ts');
  return dispatch(words);
}

/** `$XDG_CACHE_HOME/safemigrate`, or its place under the home folder. */
function cacheFolder(): string {
  const cache = process.env.XDG_CACHE_HOME;
  return path.join(cache?.startsWith('/') ? cache : path.join(homeFolder(), '.cache'), 'safemigrate');
}

// A reader that has gone (`| head`, a closed terminal) must not end a run that still has to clean up.
process.stderr.on('error', () => {});
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE')
    process.stderr.write(`safemigrate: Standard output could not be written: ${error.message}\n`);
});
// Not process.exit(): it would cut off what is still being written to pipes.
void main().then((exitCode) => {
  process.exitCode = exitCode;
});
