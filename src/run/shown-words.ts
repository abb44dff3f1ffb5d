import type { Logins } from '../command/rewrite.ts';
import { withoutSecrets } from '../command/secrets.ts';
import type { RehearseOptions } from './options.ts';

/** A command for the report. With --redact a word with a space in it is taken for SQL, whose literals are not to be told. */
export function shownWords(
  words: readonly string[],
  { logins }: Pick<Logins, 'logins'>,
  { redact }: Pick<RehearseOptions, 'redact'>,
): string[] {
  const open = withoutSecrets(words, logins);
  return redact ? open.map((word) => (/\s/.test(word) ? '…' : word)) : open;
}
