import { type OwnProgram, PROGRAM_WORD } from '../package.ts';

/** Programs that the single executable starts by its own file, in further processes. */
const PROGRAMS: Readonly<Record<OwnProgram, () => Promise<unknown>>> = {
  'cli/demo/migrate': () => import('./demo/migrate.ts'),
  'command/sandbox/launcher': () => import('../command/sandbox/launcher.ts'),
  'swap/reopen-agent-process': () => import('../swap/reopen-agent-process.ts'),
};

/** Begins the single executable: as the command line, or as one of its programs. */
function begin(): Promise<unknown> {
  const [, , word, name = ''] = process.argv;
  if (word !== PROGRAM_WORD) return import('./main.ts');
  const program = Object.entries(PROGRAMS).find(([known]) => known === name);
  if (!program) throw new Error(`safemigrate has no program ${name}`);
  // Each reads its words where it would find them if Node had started it.
  process.argv.splice(2, 2);
  return program[1]();
}

void begin();
