import { withoutPassword } from '../postgres/connection/connection-text.ts';
import type { CommandLogin } from './rewrite.ts';

const MASK = '***';

/** `--password`, `-pass`, `--db_pwd`: the next word is one. */
const PASSWORD_OPTION = /^--?[\w-]*pass(word|wd|phrase)?$|^--?[\w-]*pwd$/i;
/** `--password=…`, `PGPASSWORD=…`, `flyway.password=…`, also where it stands among other words. */
const PASSWORD_PAIR = /([\w.-]*(?:password|passwd|pwd)\s*=\s*)('[^']*'|"[^"]*"|[^\s&;'"]+)/gi;
/** `PASSWORD '…'` of CREATE ROLE, ALTER ROLE and user mappings, in SQL on the command line. */
const PASSWORD_LITERAL =
  /(\b(?:ssl)?password\b"?\s+)(?:(?:E|U&)?'(?:[^'\\]|''|\\.)*'|\$(\w*)\$[\s\S]*?\$\2\$)/gi;
/** Not `user:password@`, which is what our own examples say. */
const URL_CREDENTIALS = /([a-z][a-z0-9+.-]*:\/\/[^\s:@/]*):(?!password@)[^\s@]*@/gi;

/** The command's words as a report may show them: the passwords of its logins, and what looks like one, are masked. */
export function commandWithoutSecrets(
  argv: readonly string[],
  logins: readonly Pick<CommandLogin, 'password'>[],
): string[] {
  const known = [...new Set(logins.flatMap(({ password }) => (password ? writings(password) : [])))];
  // The longest first: a password's short writing may be a part of a longer one.
  known.sort((one, other) => other.length - one.length);
  return argv.map((word, index) => {
    if (index > 0 && PASSWORD_OPTION.test(argv[index - 1] ?? '')) return MASK;
    return maskPasswords(
      known.reduce((text, secret) => text.replaceAll(secret, MASK), withoutPassword(word)),
    );
  });
}

/** Masks what looks like a password in a text for people, which may quote what a user typed. */
export function maskPasswords(text: string): string {
  return text
    .replace(URL_CREDENTIALS, `$1:${MASK}@`)
    .replace(PASSWORD_PAIR, `$1${MASK}`)
    .replace(PASSWORD_LITERAL, `$1'${MASK}'`);
}

/** As it is, and percent-encoded; very short ones would mask half the text. */
function writings(password: string): string[] {
  return [password, encodeURIComponent(password), encodeURI(password)].filter(({ length }) => length >= 4);
}
