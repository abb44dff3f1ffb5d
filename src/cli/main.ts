#!/usr/bin/env node
import { readFileSync } from 'node:fs';
import { splitWords } from './words.ts';

/**
 * The process: argv in, exit code out. Everything beyond the version is loaded when it is needed, because a tool in
 * a deploy script is started more often than it is used.
 */
async function main(): Promise<number> {
  const words = splitWords(process.argv.slice(2));
  const { version }: { version: string } = JSON.parse(
    readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
  );
  if (words.own.length === 1 && words.own[0] === '--version') {
    process.stdout.write(`${version}\n`);
    return 0;
  }
  const { dispatch } = await import('./dispatch.ts');
  return dispatch(words, version);
}

// Waits for what was written to pipes: process.exit() would cut it off.
process.exitCode = await main();
