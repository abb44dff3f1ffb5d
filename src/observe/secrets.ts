const LITERAL = /E?'(?:[^'\\]|''|\\.)*'|\$(?<tag>\w*)\$[\s\S]*?\$\k<tag>\$/.source;
const HIDDEN = "'…'";

/** Literals that are secrets by their place: CREATE ROLE … PASSWORD '…', CREATE SUBSCRIPTION … CONNECTION '…'. */
const BEHIND_WORD = new RegExp(`(\\b(?:password|connection)\\b\\s*=?\\s*)(?:${LITERAL})`, 'gi');
/** Secrets inside of literals, as dblink and user mappings have them: `password=…` and `://user:…@`. */
const IN_CONNECTION = /(\bpassword\s*=\s*)(?:\\?'[^']*'|''[^']*''|[^\s'",)]+)/gi;
const IN_URL = /(:\/\/[^\s:/@']*:)[^\s@']+(?=@)/g;

/** The statement's text with every password that it spells out replaced. Other literals stay. */
export function withoutSecrets(sql: string): string {
  return sql
    .replace(BEHIND_WORD, (_all, word: string) => word + HIDDEN)
    .replace(IN_CONNECTION, (_all, word: string) => `${word}…`)
    .replace(IN_URL, (_all, start: string) => `${start}…`);
}
