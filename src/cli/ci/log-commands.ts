import { randomUUID } from 'node:crypto';
import type { Report } from '../../model/report.ts';
import { type Place, placeOf } from '../../report/place.ts';
import { visible } from '../../report/visible.ts';

/** A command to GitHub's runner: a line that begins with `::`, or has `##[` anywhere. */
const COMMAND = /^\s*::|##\[/m;

/**
 * Returns a text for the log. On GitHub, names and messages in it could be commands for the runner: such a text is put
 * between commands that switch commands off and on again, by a word that cannot be guessed.
 */
export function withoutCommands(text: string, env: NodeJS.ProcessEnv = process.env): string {
  if (env.GITHUB_ACTIONS !== 'true' || !COMMAND.test(text)) return text;
  const word = randomUUID();
  return `::stop-commands::${word}\n${text}${text.endsWith('\n') ? '' : '\n'}::${word}::\n`;
}

/** GitHub shows at most ten of each kind for a step. */
const EACH = 10;

/**
 * Writes workflow commands, which GitHub Actions shows beside the run: the verdict's reasons, and the hazards at the lines of
 * their statements, if these were found.
 */
export function annotations(report: Report): string {
  const { verdict, hazards } = report;
  const reasons = verdict.reasons.slice(0, EACH).map((reason) => command('error', 'safemigrate', reason));
  const found = hazards
    .filter(({ allowed, severity }) => !allowed && severity !== 'notice')
    .slice(0, 2 * EACH)
    .map(({ code, severity, relation, statement, message, evidence }) => {
      const title = relation === null ? code : `${code} on ${relation}`;
      return command(severity, title, `${message}. ${evidence}`, placeOf(report, statement));
    });
  return [...reasons, ...found].join('');
}

/** Escapes line breaks and percent signs, as the runner requires; it takes nothing else in a text for a command. */
function command(kind: string, title: string, text: string, at?: Place): string {
  const value = (part: string) =>
    visible(part).replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A');
  const property = (part: string) => value(part).replaceAll(':', '%3A').replaceAll(',', '%2C');
  const line = at === undefined || at.line === null ? '' : `line=${at.line},`;
  const place = at === undefined ? '' : `file=${property(at.file)},${line}`;
  return `::${kind} ${place}title=${property(title)}::${value(text)}\n`;
}
