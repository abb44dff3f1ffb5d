import type { SchemaSection } from '../../model/report.ts';

/** Within another literal, as dynamic SQL is, quotes come twice or four times. */
const NESTED = /''''[^']+''''|''(?:[^']|'''')+''/.source;
/** One that goes on behind a line's end is still the same. */
const LITERAL = /(?:E|U&)?'(?:[^'\\]|''|\\.)*'(?:\s*\n\s*'(?:[^']|'')*')*|\$(?<tag>\w*)\$[\s\S]*?\$\k<tag>\$/
  .source;
/** Spacing and comments, which may stand between two words. */
const GAP = /(?:\s|\/\*[\s\S]*?\*\/|--[^\n]*\n)*/.source;
const EVERY_LITERAL = new RegExp(LITERAL, 'gi');
const HIDDEN = "'…'";

/** The word is the end of a literal that is a name, and the quote behind it closes that: ('my.password', …). */
const IS_NAME = `(?<='[\\w.$]*)'{1,4}${GAP},`;
/** Literals that are secrets by their place: CREATE ROLE … PASSWORD '…', CREATE SUBSCRIPTION … CONNECTION '…'. */
const BEHIND_WORD = new RegExp(
  `(\\b(?:ssl)?(?:password|connection)\\b(?!${IS_NAME})"?${GAP}=?${GAP})(?:${NESTED}|${LITERAL})`,
  'gi',
);
/** Values behind such a name: VALUES ('smtp.password', '…'), jsonb_build_object('password', '…'). */
const BEHIND_NAME = new RegExp(`('[\\w.$]*password'{1,4}${GAP},${GAP})(?:${NESTED}|${LITERAL})`, 'gi');
/** Statements whose options hold secrets under names that only the wrapper knows: secret_key, api_token, … */
const OF_SERVERS = new RegExp(
  `\\b(?:create|alter)${GAP}(?:server|user${GAP}mapping|foreign${GAP}data${GAP}wrapper)\\b(?:${LITERAL}|[^;])*`,
  'gi',
);
const OPTION = new RegExp(`("(?:[^"]|"")+"|\\b[a-z_][\\w$]*)(${GAP})(${NESTED}|${LITERAL})`, 'gi');
const NO_SECRETS = new Set([
  ...[
    'type',
    'version',
    'user',
    'host',
    'hostaddr',
    'port',
    'dbname',
    'service',
    'sslmode',
    'connect_timeout',
  ],
  ...['fetch_size', 'batch_size', 'use_remote_estimate', 'updatable', 'truncatable', 'extensions'],
]);
/** Settings whose names say that they are secrets: set_config('app.jwt_secret', '…', …), SET app.api_token = '…'. */
const SECRET_NAME = String.raw`[\w.$]*(?:password|passwd|passphrase|secret|token|api_?key|private_?key|credential)[\w.$]*`;
const SETTING = new RegExp(
  `(\\bset_config${GAP}\\(${GAP}'{1,4}${SECRET_NAME}'{1,4}${GAP},${GAP}|` +
    `\\bset${GAP}(?:(?:local|session)${GAP})?"?${SECRET_NAME}"?${GAP}(?:=|to)${GAP})(?:${NESTED}|${LITERAL})`,
  'gi',
);
/** Dynamic SQL that takes them from elsewhere: format('… PASSWORD %L', …), '… PASSWORD ' || …. */
const PUT_IN = /\b(?:password|connection)\b\s*=?\s*'*\s*(?:%\d*\$?[LsI]|\|\|)/i;
/** Secrets inside of literals, as dblink and user mappings have them: `password=…` and `://user:…@`. */
const IN_CONNECTION = /(\b(?:ssl)?password\s*=\s*)(?:\\?'[^']*'|''[^']*''|[^\s'",)]+)/gi;
/** A password whose quotes were forgotten, which the server answers with a syntax error that quotes it. */
const UNQUOTED = new RegExp(
  `(\\b(?:create|alter)\\s+(?:role|user|group)\\b[^;]*?\\bpassword(?=\\s|/\\*|--)${GAP})` +
    `(?!null\\b|'|\\$\\d|--|/\\*)("(?:[^"]|"")*"|[^\\s;]+)`,
  'gi',
);
const NEAR = /(at or near )".*"/s;
const IN_URL = /(:\/\/[^\s:/@']*:)[^\s@']+(?=@)/g;
/** `curl -u user:…` of COPY … PROGRAM. */
const OF_PROGRAM = /((?:\s-u\s*|\s--user[\s=]+)[^\s:'"]+:)[^\s'"]+/g;

/** The statement's text with every password that it spells out replaced. Other literals stay if they can be distinguished. */
export function statementWithoutSecrets(sql: string): string {
  if (PUT_IN.test(sql)) return sql.replace(EVERY_LITERAL, HIDDEN);
  return sql
    .replace(OF_SERVERS, withoutOptions)
    .replace(BEHIND_WORD, (_all, word: string) => word + HIDDEN)
    .replace(BEHIND_NAME, (_all, start: string) => start + HIDDEN)
    .replace(SETTING, (_all, start: string) => start + HIDDEN)
    .replace(UNQUOTED, (_all, start: string) => `${start}…`)
    .replace(IN_CONNECTION, '$1…')
    .replace(IN_URL, '$1…')
    .replace(OF_PROGRAM, '$1…');
}

function withoutOptions(statement: string): string {
  return statement.replace(OPTION, (all, name: string, gap: string) =>
    NO_SECRETS.has(name.replace(/^"(.*)"$/s, '$1').toLowerCase()) ? all : name + gap + HIDDEN,
  );
}

/** The statements that a schema comparison makes of what the catalogue holds: bodies of functions, definitions of views. */
export function schemaWithoutSecrets(schema: SchemaSection): SchemaSection {
  const { changes, objects, rollbackSql } = schema;
  return {
    ...schema,
    changes: changes.map((change) => ({ ...change, sql: statementWithoutSecrets(change.sql) })),
    objects: objects?.map((object) => ({
      ...object,
      before: object.before && statementWithoutSecrets(object.before),
      after: object.after && statementWithoutSecrets(object.after),
    })),
    rollbackSql: rollbackSql && statementWithoutSecrets(rollbackSql),
  };
}

/** The message of a statement's error, which may quote the statement, a URL or a program's command line. */
export function messageWithoutSecrets(message: string, sql: string): string {
  // A global expression would begin where its last search ended.
  const quoted = sql.search(UNQUOTED) < 0 ? message : message.replace(NEAR, '$1"…"');
  return quoted.replace(IN_CONNECTION, '$1…').replace(IN_URL, '$1…').replace(OF_PROGRAM, '$1…');
}
