import { SafemigrateError } from '../../errors.ts';
import { effective } from '../mention.ts';
import { type CommandInput, type Logins, namesTarget } from '../rewrite.ts';

/** Tells whether the user led the command to the clone; what safemigrate adds by itself does not count. */
export function leadsToClone(
  input: Pick<CommandInput, 'argv' | 'urlVariable'>,
  logins: Pick<Logins, 'mentions' | 'variables'>,
): boolean {
  const { argv, urlVariable } = input;
  return (
    namesTarget(input, logins) ||
    // It is rewritten whatever its value is, also if only the arguments mention it.
    urlVariable in effective(logins.variables) ||
    argv.some((argument) => argument.includes(urlVariable))
  );
}

/** Builds the refusal to run a command that might take its connection from a file, where nothing would prevent that. */
export function unnamedTarget(urlVariable: string, reason: string): SafemigrateError {
  return new SafemigrateError(
    'SANDBOX',
    'The command was not run: nothing in its arguments, its environment and .env names the target, so it may read its connection ' +
      `from a file and write to the target, and nothing here would prevent that (${reason}).`,
    {
      hint:
        `Set ${urlVariable} if the command reads it; or write {safemigrate:url} ({safemigrate:host}, {safemigrate:port}, …) into an ` +
        'argument or a variable that it reads; or name its file as {safemigrate:config FILE}, which gives it a copy that names the ' +
        'clone. --sandbox off runs it all the same. Nothing was touched.',
    },
  );
}
