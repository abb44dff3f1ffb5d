import { SafemigrateError } from '../errors.ts';
import { exitCodeOfError } from './exit-codes.ts';
import type { Asked } from './program.ts';
import { readWords } from './program.ts';
import { noCommand, type Words } from './words.ts';

/** Runs what the words ask for. @returns the exit code; foreseeable failures are printed, not thrown. */
export async function dispatch(words: Words, version: string): Promise<number> {
  const { SignalWatch } = await import('./signals.ts');
  const signals = new SignalWatch();
  try {
    const asked = readWords(words.own, version, words.command !== undefined);
    if (asked === 'shown') return 0;
    return await run(asked, words, version, signals);
  } catch (error) {
    if (!(error instanceof SafemigrateError)) throw error;
    const { printError } = await import('./print.ts');
    printError(error);
    return exitCodeOfError(error.code, signals.received);
  } finally {
    signals.stop();
  }
}

type Signals = InstanceType<typeof import('./signals.ts')['SignalWatch']>;

async function run(asked: Asked, words: Words, version: string, signals: Signals): Promise<number> {
  switch (asked.action) {
    case 'rehearse': {
      if (words.command === undefined || words.command.length === 0) throw noCommand(words.own);
      const { rehearseCommand } = await import('./commands/rehearse.ts');
      return rehearseCommand(asked.values, words.command, version, signals);
    }
    case 'list': {
      const { listCommand } = await import('./commands/list.ts');
      return listCommand(asked.values, signals.abort);
    }
    case 'clean': {
      const { cleanCommand } = await import('./commands/clean.ts');
      return cleanCommand(asked.values, signals.abort);
    }
    case 'demo': {
      const { demoCommand } = await import('./commands/demo.ts');
      return demoCommand(version, signals);
    }
  }
}
