import { withoutPassword } from '../postgres/connection/connection-text.ts';
import type { CommandLogin } from './rewrite.ts';

const MASK = '***';

/** `--password`, `-pass`, `--db_pwd`: the next word is one. */
const PASSWORD_OPTION = /^--?[\w-]*pass(word|wd|phrase)?$|^--?[\w-]*pwd$/i;
/** `--password=…`, `PGPASSWORD=…`, `flyway.password=…`, also among other words. */
const PASSWORD_PAIR = /([\w.-]*(?:password|passwd|pwd)\s*=\s*)('[^']*'|"[^"]*"|[^\s&;'"]+)/gi;
/** The name of a variable as a value, in a shell's words: `"$DB_PASSWORD"`. */
const REFERENCE = /^"\$[A-Z_]+"$/;
/** `PASSWORD '…'` of CREATE ROLE, ALTER ROLE and user mappings, in SQL on the command line. */
const PASSWORD_LITERAL =
  /(\b(?:ssl)?password\b"?\s+)(?:(?:E|U&)?'(?:[^'\\]|''|\\.)*'|\$(\w*)\$[\s\S]*?\$\2\$)/gi;
/** Except `user:password@`, which our own examples contain. */
const URL_CREDENTIALS = /([a-z][a-z0-9+.-]*:\/\/[^\s:@/]*):(?!password@)[^\s@]*@/gi;

/** Masks the command's words for a report: the passwords of its logins, and whatever looks like one. */
export function commandWithoutSecrets(
  argv: readonly string[],
  logins: readonly Pick<CommandLogin, 'password'>[],
): string[] {
  const known = [...new Set(logins.flatMap(({ password }) => (password ? writings(password) : [])))];
  // The longest first, since one form of a password may be part of another one.
  known.sort((one, other) => other.length - one.length);
  return argv.map((word, index) => {
    if (index > 0 && PASSWORD_OPTION.test(argv[index - 1] ?? '')) return MASK;
    return maskPasswords(
      known.reduce((text, secret) => text.replaceAll(secret, MASK), withoutPassword(word)),
    );
  });
}

/** Masks whatever looks like a password in a message, which may quote what a user typed. */
export function maskPasswords(text: string): string {
  return text
    .replace(URL_CREDENTIALS, `$1:${MASK}@`)
    .replace(PASSWORD_PAIR, (pair, name, value) => (REFERENCE.test(value) ? pair : `${name}${MASK}`))
    .replace(PASSWORD_LITERAL, `$1'${MASK}'`);
}

/** Lists a password's forms: plain and percent-encoded. Very short ones would mask half the text. */
function writings(password: string): string[] {
  return [password, encodeURIComponent(password), encodeURI(password)].filter(({ length }) => length >= 4);
}
