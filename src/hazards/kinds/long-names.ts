import type { StatementSection } from '../../model/report.ts';
import type { Finding, HazardRecord } from '../hazard-definition.ts';

/** NAMEDATALEN - 1: what PostgreSQL keeps of a name, in bytes. */
const LONGEST_NAME = 63;

/** Names that the server does not store as they are written. */
export const LONG_NAMES: readonly HazardRecord[] = [
  {
    code: 'NAME_TRUNCATED',
    title: 'a name is longer than PostgreSQL keeps',
    condition: `A CREATE or ALTER that succeeded contains a name of more than ${LONGEST_NAME} bytes; a warning if two such names become the same one.`,
    effect:
      'The server cuts the name with nothing but a NOTICE. Code that looks it up in the catalogues (a migration tool that drops it later, a model) does not find it, and IF NOT EXISTS takes another object whose name begins alike for this one.',
    safer: `Choose names of at most ${LONGEST_NAME} bytes (https://www.postgresql.org/docs/current/sql-syntax-lexical.html#SQL-SYNTAX-IDENTIFIERS).`,
    find: (context) => {
      const kept = new Map<string, Set<string>>();
      const found = context.facts.statements.flatMap((statement) => {
        const names = longNames(statement).filter((name) => !kept.get(cut(name))?.has(name));
        for (const name of names) kept.set(cut(name), (kept.get(cut(name)) ?? new Set()).add(name));
        return names.map((name) => ({ statement, name }));
      });
      return found.map(({ statement, name }): Finding => {
        const alike = [...(kept.get(cut(name)) ?? [])].filter((other) => other !== name);
        return {
          statement: statement.index,
          relation: null,
          severity: alike.length > 0 ? 'warning' : 'notice',
          message:
            alike.length > 0
              ? `${name} and ${alike.join(', ')} are cut to the same name`
              : `the name ${name} is cut to ${cut(name)}`,
          evidence: `${Buffer.byteLength(name)} bytes; the server keeps the first ${LONGEST_NAME}`,
          advice: `Write the name that is meant, with at most ${LONGEST_NAME} bytes.`,
        };
      });
    },
  },
];

const CHANGES_SCHEMA = /^(?:CREATE|ALTER) /;
/** Cheap, and true of each text with such a name in it. */
const MAY_BE_LONG = /[\w$\u0080-\uffff]{21}|"[^"]{21}/;
/** Literals, bodies of functions and comments, in which a long word is no name. */
const NO_NAMES = /'(?:[^']|'')*'|\$(\w*)\$[\s\S]*?\$\1\$|--[^\n]*|\/\*[\s\S]*?\*\//g;
const NAME = /"(?:[^"]|"")+"|[A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*/g;

function longNames({ tag, error, sql }: StatementSection): string[] {
  if (error || !CHANGES_SCHEMA.test(tag ?? '') || sql.length <= LONGEST_NAME || !MAY_BE_LONG.test(sql))
    return [];
  const names = (sql.replace(NO_NAMES, ' ').match(NAME) ?? []).map((name) =>
    name.startsWith('"') ? name.slice(1, -1).replaceAll('""', '"') : name.toLowerCase(),
  );
  return [...new Set(names)].filter((name) => Buffer.byteLength(name) > LONGEST_NAME);
}

/** The server cuts between characters. */
function cut(name: string): string {
  const bytes = Buffer.from(name);
  let end = LONGEST_NAME;
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end--;
  return bytes.subarray(0, end).toString();
}
