import type { RehearsalGate } from '../boundary/rehearsal-gate.ts';
import { type Script, shortenedScript } from '../clone/after-clone.ts';
import { SafemigrateError } from '../errors.ts';
import { type ParsedStatement, parseText } from '../postgres/sql/parse.ts';

/**
 * Keeps the scripts of --after-clone within the clone, as the command is kept. None has run yet.
 * @returns them as they are to be run: what named the target names the clone.
 * @throws SafemigrateError `CLONE` for the first statement that would take effect beyond the clone.
 */
export async function gateScripts(
  scripts: readonly Script[],
  gate: RehearsalGate,
  target: string,
): Promise<Script[]> {
  const gated: Script[] = [];
  for (const { name, sql: given } of scripts) {
    const statements = await parseText(Buffer.from(given));
    const sql = (await gate.translate(given, statements ?? [])) ?? given;
    const sent: readonly (ParsedStatement | null)[] = (await parseText(Buffer.from(sql))) ?? [null];
    for (const parsed of sent) {
      const answer = await gate.before({ session: 0, user: '', database: target, sql, parsed });
      if (answer === 'run') continue;
      throw new SafemigrateError('CLONE', `--after-clone ${shortenedScript(name)}: ${answer.message}.`, {
        hint: `The target was not touched, and the command was not run. ${answer.hint ?? ''}`.trim(),
      });
    }
    gated.push({ name, sql });
  }
  return gated;
}
