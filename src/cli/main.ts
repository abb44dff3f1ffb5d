#!/usr/bin/env node
import { toolVersion } from '../package.ts';
import { splitWords } from './split-arguments.ts';

/**
 * The process: argv in, exit code out. Everything beyond the version is loaded when it is needed, because a tool in
 * a deploy script is started more often than it is used.
 */
async function main(): Promise<number> {
  const words = splitWords(process.argv.slice(2));
  if (words.own.length === 1 && words.own[0] === '--version') {
    process.stdout.write(`${toolVersion()}\n`);
    return 0;
  }
  const { dispatch } = await import('./dispatch.ts');
  return dispatch(words);
}

// A reader that has gone (`| head`, a closed terminal) must not end a run that still has to clean up.
process.stderr.on('error', () => {});
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE')
    process.stderr.write(`safemigrate: Standard output could not be written: ${error.message}\n`);
});
// Not process.exit(): it would cut off what is still being written to pipes.
process.exitCode = await main();
