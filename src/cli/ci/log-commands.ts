import { randomUUID } from 'node:crypto';

/** What GitHub's runner takes for a command: a line that begins with `::`, or has `##[` anywhere. */
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
