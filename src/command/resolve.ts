import { accessSync, closeSync, constants, existsSync, openSync, readSync, statSync } from 'node:fs';
import { delimiter, dirname, join, resolve } from 'node:path';
import { SafemigrateError } from '../errors.ts';

const LONGEST_SHEBANG = 256;

export interface Where {
  /** The child's PATH. */
  readonly path: string;
  readonly folder: string;
}

/**
 * Finds the file that a shell would run for the first word of the command, before anything is touched.
 * @throws SafemigrateError `COMMAND` if it cannot be started.
 */
export function resolveCommand(argv: readonly string[], where: Where): string {
  const [program = ''] = argv;
  if (program === '')
    throw new SafemigrateError('COMMAND', 'The command after -- is empty.', {
      hint: 'A variable used there may not be set.',
    });
  const file = program.includes('/') ? direct(program, where) : searched(program, where);
  checkInterpreter(program, file, where);
  return file;
}

function direct(program: string, { folder }: Where): string {
  const file = resolve(folder, program);
  const trouble = troubleWith(file);
  if (trouble) throw cannotStart(program, `it ${trouble}`, adviceOn(trouble, program));
  return file;
}

function searched(program: string, where: Where): string {
  let trouble: string | undefined;
  for (const folder of where.path.split(delimiter)) {
    // An empty entry of PATH is the current folder.
    const file = resolve(where.folder, folder, program);
    const found = troubleWith(file);
    if (found === undefined) return file;
    // PATH often contains unreadable folders of other users, which a shell skips as well.
    if (found !== MISSING && found !== OUT_OF_REACH) trouble ??= `${file} ${found}`;
  }
  throw cannotStart(program, trouble ?? 'it is not in PATH', hintFor(program, where));
}

function adviceOn(trouble: string, program: string): string {
  return trouble === NOT_EXECUTABLE ? `Run: chmod +x ${program}` : 'Check the path.';
}

const MISSING = 'does not exist';
const OUT_OF_REACH = 'is in a folder that this user may not read';
const NOT_EXECUTABLE = 'is not executable';

function troubleWith(file: string): string | undefined {
  try {
    if (statSync(file).isDirectory()) return 'is a folder';
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EACCES' ? OUT_OF_REACH : MISSING;
  }
  return isExecutable(file) ? undefined : NOT_EXECUTABLE;
}

export function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Checks a script's interpreter: if it is missing, the error is the same as for a missing script, which would mislead. */
function checkInterpreter(program: string, file: string, where: Where): void {
  const line = firstLine(file);
  if (!line.startsWith('#!')) return;
  const [interpreter = '', argument = ''] = line
    .slice(2)
    .trimStart()
    .split(/[ \t]+/);
  if (line.endsWith('\r'))
    throw cannotStart(
      program,
      'its first line ends in a carriage return',
      'Save the script with Unix line ends.',
    );
  const trouble = troubleWith(resolve(where.folder, interpreter));
  if (trouble) throw cannotStart(program, `its interpreter ${interpreter} ${trouble}`);
  const viaEnv = interpreter.endsWith('/env') && /^[\w.-]+$/.test(argument) && !argument.startsWith('-');
  const found = where.path
    .split(delimiter)
    .some((folder) => troubleWith(resolve(where.folder, folder, argument)) === undefined);
  if (viaEnv && !found) throw cannotStart(program, `its interpreter ${argument} is not in PATH`);
}

function firstLine(file: string): string {
  const buffer = Buffer.alloc(LONGEST_SHEBANG);
  try {
    const descriptor = openSync(file, 'r');
    try {
      const length = readSync(descriptor, buffer);
      return buffer.toString('latin1', 0, length).split('\n', 1)[0] ?? '';
    } finally {
      closeSync(descriptor);
    }
  } catch {
    // A program may be executable without being readable.
    return '';
  }
}

function hintFor(program: string, where: Where): string | undefined {
  if (/^\w+=/.test(program)) return `Write: safemigrate -- env ${program} …`;
  if (/\s/.test(program))
    return `Write the words without quotes around them all, or: safemigrate -- sh -c '${program}'`;
  if (isLocalPackage(program, where.folder)) return `Did you mean: safemigrate -- npx ${program} …`;
  return 'Check its spelling and PATH; something that only your shell knows needs sh -c.';
}

function isLocalPackage(program: string, start: string): boolean {
  for (let folder = start; ; folder = dirname(folder)) {
    if (existsSync(join(folder, 'node_modules', '.bin', program))) return true;
    if (dirname(folder) === folder) return false;
  }
}

function cannotStart(program: string, why: string, hint?: string): SafemigrateError {
  return new SafemigrateError('COMMAND', `The command "${program}" cannot be started: ${why}.`, {
    ...(hint === undefined ? {} : { hint }),
  });
}
