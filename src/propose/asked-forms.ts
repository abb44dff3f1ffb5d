import type { Hazard } from '../model/report.ts';
import { keptStatements, type Recording } from './kept-statements.ts';
import { type Forms, isAskedFor, wordsOfForm } from './scripted-hazards.ts';
import type { Before } from './subject.ts';
import { type ScriptChange, writeScript } from './write-script.ts';

/**
 * Says of the statements that only `--propose-all` rewrites whether it does: they are written as it would write them.
 * @throws Error in words for the user if a statement of the command cannot be written
 */
export async function askedForms(
  recording: Recording,
  before: Before,
  found: readonly Hazard[],
  forms: Forms,
): Promise<ScriptChange[]> {
  const asked = found.filter(({ code }) => isAskedFor(code, forms));
  if (asked.length === 0) return [];
  const { changes, left } = writeScript(
    recording,
    before,
    await keptStatements(recording, asked, 'safer'),
    asked,
  );
  const written = changes.map(({ statement, codes }) => ({
    statement,
    codes,
    words: `--propose-all writes it: ${codes.map(wordsOfForm).join('; ')}`,
  }));
  // A script of these alone may drop their indexes in another way, too.
  return [...written, ...left].filter(({ codes }) => codes.some((code) => isAskedFor(code, forms)));
}
