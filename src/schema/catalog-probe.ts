import { sqlstateOf } from '../errors.ts';
import type { Session } from '../postgres/connection/session.ts';

/**
 * Most schemas consist of tables and little else, and a question that has no answer is as much work for a server as any other: it
 * plans for longer than it reads. So first of all it is asked, at once for all questions, what there is anything of.
 */

const INSUFFICIENT_PRIVILEGE = '42501';

/** The first OID that is not initdb's. What has a lower one is the server's own, of which no question is told. */
const FIRST_NORMAL_OID = 16_384;

/** Catalogues that everybody may read, with the column that holds the OID of what somebody made. */
const MADE: ReadonlyMap<string, string> = new Map([
  ...[
    'pg_cast',
    'pg_class',
    'pg_collation',
    'pg_constraint',
    'pg_default_acl',
    'pg_enum',
    'pg_event_trigger',
    'pg_foreign_data_wrapper',
    'pg_foreign_server',
    'pg_opclass',
    'pg_operator',
    'pg_opfamily',
    'pg_policy',
    'pg_proc',
    'pg_publication',
    'pg_rewrite',
    'pg_statistic_ext',
    'pg_transform',
    'pg_trigger',
    'pg_ts_config',
    'pg_ts_dict',
    'pg_ts_parser',
    'pg_ts_template',
    'pg_type',
  ].map((name) => [name, 'oid'] as const),
  ['pg_foreign_table', 'ftrelid'],
  ['pg_inherits', 'inhrelid'],
  ['pg_range', 'rngtypid'],
  ['pg_sequence', 'seqrelid'],
]);

const SAVEPOINT = 'SAVEPOINT presence';
const RELEASE = 'RELEASE SAVEPOINT presence';
const BACK = 'ROLLBACK TO SAVEPOINT presence';

export interface Presence {
  /** Of the questions, those that have no row for an answer. */
  readonly empty: ReadonlySet<string>;
  /** Catalogues of the objects that have dependencies, or that others depend on; undefined where that is not known. */
  readonly linked: ReadonlySet<string> | undefined;
}

const LINKED = `ARRAY(SELECT DISTINCT c.relname::pg_catalog.text
  FROM (SELECT DISTINCT classid, refclassid FROM pg_catalog.pg_depend WHERE objid >= ${FIRST_NORMAL_OID}) d
  JOIN pg_catalog.pg_class c ON c.oid IN (d.classid, d.refclassid))`;

/**
 * What there is, at the moment that the session's transaction sees; where that may not be read, anything may be there.
 * @param also statements that are sent along, so that they wait for nobody. @returns their rows as well.
 */
export async function lookAround(
  session: Session,
  questions: readonly string[],
  also: readonly string[] = [],
): Promise<Presence & { readonly rows: readonly object[][] }> {
  const rowsFor = new Map(questions.map((sql) => [sql, neededRows(sql)]));
  const needed = [...new Set(rowsFor.values())].filter((rows) => rows !== undefined);
  const look = `SELECT ${LINKED} AS linked, ARRAY[${needed.map((rows) => `EXISTS (${rows})`).join(', ')}] AS present`;
  try {
    const [, [found] = [], , ...rows] = await session.queryAll<{ linked: string[]; present: boolean[] }>([
      SAVEPOINT,
      look,
      RELEASE,
      ...also,
    ]);
    const absent = new Set(needed.filter((_, index) => found?.present[index] === false));
    return {
      empty: new Set(questions.filter((sql) => absent.has(rowsFor.get(sql) ?? ''))),
      linked: found && new Set(found.linked),
      rows,
    };
  } catch (error) {
    if (sqlstateOf(error) !== INSUFFICIENT_PRIVILEGE) throw error;
    const [, ...rows] = await session.queryAll([BACK, ...also]);
    return { empty: new Set(), linked: undefined, rows };
  }
}

/**
 * Without which rows a question has no answer: its answer is made of those of the catalogue that it begins with, as far as joins and
 * conditions let them through. undefined where that cannot be told.
 */
export function neededRows(sql: string): string | undefined {
  const text = outermost(sql);
  if (/\b(or|union|intersect|except|right|full)\b/i.test(text)) return undefined;
  const [, name = '', alias] =
    /^\s*select\b.*?\sfrom\s+(?:pg_catalog\.)?(pg_\w+)\s+(\w+)\b/is.exec(text) ?? [];
  const oid = MADE.get(name);
  if (oid === undefined) return undefined;
  const where = text.slice(text.search(/\bwhere\b/i));
  const kinds = new RegExp(
    String.raw`\b(?:where|and)\s+${alias}\.((?:(?:relkind|typtype|prokind)\s*(?:=\s*'\w'|in\s*\[[^\]]*\]))|contypid\s*<>\s*0)`,
    'gi',
  );
  const conditions = [...where.matchAll(kinds)].map(
    ([, condition = '']) => ` AND x.${condition.replace('[', '(').replace(']', ')')}`,
  );
  return `SELECT FROM pg_catalog.${name} x WHERE x.${oid} >= ${FIRST_NORMAL_OID}${conditions.join('')}`;
}

/** What stands in no parentheses; lists of literals are put into brackets, and literals are kept that may name a kind. */
function outermost(sql: string): string {
  const listed = sql.replace(/\bin\s*\(((?:\s*'[^']*'\s*,?)+)\)/gi, 'in [$1]');
  let depth = 0;
  let text = '';
  for (const [token] of listed.matchAll(/--[^\n]*|'(?:[^']|'')*'|[()]|[^-'()]+|-/g)) {
    if (token.startsWith('--')) continue;
    if (token === ')') depth--;
    if (depth === 0) text += /^'..+'$/s.test(token) ? "''" : token;
    if (token === '(') depth++;
  }
  return text;
}
