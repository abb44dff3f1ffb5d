import { SafemigrateError } from '../errors.ts';
import { EXIT, exitCodeOfError } from './exit-codes.ts';
import { printError, printUnforeseen } from './print.ts';
import { type ParsedArguments, readWords } from './program.ts';
import { SignalWatch } from './signals.ts';
import { noCommand, type SplitArguments } from './split-arguments.ts';

/** Runs what the words ask for, and prints every failure. @returns the exit code. */
export async function dispatch(words: SplitArguments): Promise<number> {
  const signals = new SignalWatch();
  try {
    const asked = readWords(words.own, words.command !== undefined);
    return asked === 'shown' ? 0 : await run(asked, words, signals);
  } catch (error) {
    if (!(error instanceof SafemigrateError)) {
      printUnforeseen(error);
      return EXIT.cannotRehearse;
    }
    printError(error);
    return exitCodeOfError(error.code, signals.received);
  } finally {
    signals.stop();
  }
}

async function run(asked: ParsedArguments, words: SplitArguments, signals: SignalWatch): Promise<number> {
  switch (asked.action) {
    case 'rehearse':
    case 'apply':
    case 'swap': {
      if (words.command === undefined || words.command.length === 0) throw noCommand(asked.action);
      const { rehearseCommand } = await import('./commands/run-command-line.ts');
      return rehearseCommand(asked.action, asked.values, words.command, signals);
    }
    case 'init': {
      const { initCommand } = await import('./commands/init-command.ts');
      return initCommand(asked.values);
    }
    case 'doctor': {
      const { doctorCommand } = await import('./commands/doctor-command.ts');
      return doctorCommand(asked.values, signals.abort);
    }
    case 'list': {
      const { listCommand } = await import('./commands/list-command.ts');
      return listCommand(asked.values, signals.abort);
    }
    case 'clean': {
      const { cleanCommand } = await import('./commands/clean-command.ts');
      return cleanCommand(asked.values, signals.abort);
    }
    case 'clone': {
      const { cloneCommand } = await import('./commands/clone-command.ts');
      return cloneCommand(asked.values, signals.abort);
    }
    case 'reset': {
      const { resetCommand } = await import('./commands/clone-command.ts');
      return resetCommand(asked.subject, signals.abort);
    }
    case 'rollback': {
      const { rollbackCommand } = await import('./commands/rollback-command.ts');
      return rollbackCommand(asked.values, asked.subject, signals.abort);
    }
    case 'pause':
    case 'resume':
    case 'abort': {
      const { orderCommand } = await import('./commands/orders.ts');
      return orderCommand(asked.action, asked.subject);
    }
    case 'show': {
      const { showCommand } = await import('./commands/show-command.ts');
      return showCommand(asked.values, asked.subject);
    }
    case 'comment': {
      const { commentCommand } = await import('./commands/comment-command.ts');
      return commentCommand(asked.subject, asked.values);
    }
    case 'completion': {
      const { completionCommand } = await import('./commands/completion-command.ts');
      return completionCommand(asked.subject);
    }
    case 'profile': {
      const { profileCommand } = await import('./commands/profile-command.ts');
      return profileCommand(asked.values, signals.abort);
    }
    case 'upgrade': {
      const { upgradeCommand } = await import('./commands/upgrade-command.ts');
      return upgradeCommand(asked.values, words.command ?? [], signals);
    }
    case 'explain': {
      const { explainCommand } = await import('./commands/explain-command.ts');
      return explainCommand(asked.subject);
    }
    case 'demo': {
      const { demoCommand } = await import('./commands/demo-command.ts');
      return demoCommand(asked.values, signals);
    }
  }
}
