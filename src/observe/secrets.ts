/** Within another literal, as dynamic SQL is, quotes come twice or four times. */
const NESTED = /''''[^']+''''|''(?:[^']|'''')+''/.source;
const LITERAL = /E?'(?:[^'\\]|''|\\.)*'|\$(?<tag>\w*)\$[\s\S]*?\$\k<tag>\$/.source;
const EVERY_LITERAL = new RegExp(LITERAL, 'gi');
const HIDDEN = "'…'";

/** Literals that are secrets by their place: CREATE ROLE … PASSWORD '…', CREATE SUBSCRIPTION … CONNECTION '…'. */
const BEHIND_WORD = new RegExp(`(\\b(?:password|connection)\\b\\s*=?\\s*)(?:${NESTED}|${LITERAL})`, 'gi');
/** Dynamic SQL that takes them from elsewhere: format('… PASSWORD %L', …), '… PASSWORD ' || …. */
const PUT_IN = /\b(?:password|connection)\b\s*=?\s*'*\s*(?:%\d*\$?[LsI]|\|\|)/i;
/** Secrets inside of literals, as dblink and user mappings have them: `password=…` and `://user:…@`. */
const IN_CONNECTION = /(\bpassword\s*=\s*)(?:\\?'[^']*'|''[^']*''|[^\s'",)]+)/gi;
const IN_URL = /(:\/\/[^\s:/@']*:)[^\s@']+(?=@)/g;

/** The statement's text with every password that it spells out replaced. Other literals stay where that can be told. */
export function withoutSecrets(sql: string): string {
  if (PUT_IN.test(sql)) return sql.replace(EVERY_LITERAL, HIDDEN);
  return sql
    .replace(BEHIND_WORD, (_all, word: string) => word + HIDDEN)
    .replace(IN_CONNECTION, (_all, word: string) => `${word}…`)
    .replace(IN_URL, (_all, start: string) => `${start}…`);
}
