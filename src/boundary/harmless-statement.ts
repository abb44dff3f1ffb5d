import type * as Tree from 'libpg-query';
import {
  actionsOf,
  effectOf,
  fieldsIf,
  isHarmlessElsewhere,
  nameOfStatement,
  reachOf,
  runsOf,
} from '../postgres/sql/classify-statement.ts';
import {
  type Code,
  languageOf,
  plpgsqlCode,
  sqlBody,
  sqlCode,
  UNREADABLE,
} from '../postgres/sql/code-texts.ts';
import type { StatementKind } from '../postgres/sql/statement-properties.ts';
import { kindOf, type Node, nameOfParts, nodesWithin } from '../postgres/sql/tree.ts';
import { HARMLESS_EXTENSIONS } from './harmless-functions.ts';
import { linkDefinition, linkNewName } from './link-definition.ts';
import { partsOf, type StatementParts } from './statement-parts.ts';
import {
  ANYTHING,
  DEFINITIONS,
  IN_OTHER_ENCODING,
  LETTERS,
  TABLES,
  TRIGGERS,
  type UnknownNames,
} from './unknown-names.ts';

const OTHER_LETTERS = /[^\0-\x7f]/;

/** Kinds that change rows or run code, but fire no event trigger by themselves. */
const FIRES_NOTHING: ReadonlySet<string> = new Set<StatementKind>([
  ...(['InsertStmt', 'UpdateStmt', 'DeleteStmt', 'MergeStmt', 'CopyStmt', 'DoStmt', 'CallStmt'] as const),
  'ExecuteStmt',
]);

/** Languages in which a function may be made without that any code of it runs. */
const LANGUAGES: ReadonlySet<string> = new Set(['sql', 'plpgsql', 'internal', 'plperl', 'pltcl', 'plv8']);

/** A body with all that it comes to. */
interface Judged extends Pick<StatementParts, 'words' | 'writes'> {
  /** The first thing in it that is not known to be harmless. */
  readonly unknown: string | undefined;
}

/**
 * Returns the first thing in a statement of which it is not known that it stays within the database, in words; undefined if it is
 * harmless. Notes the names that it makes.
 * @param sql the text of the statement, and nothing else; null if it is not known.
 * @param isWithinCode the next statement may call at once what it makes.
 */
export async function unknownInStatement(
  sql: string | null,
  node: Node,
  names: UnknownNames,
  isWithinCode = false,
): Promise<string | undefined> {
  const parts = partsOf(node);
  const unknown =
    names.find(ANYTHING, 'use') ??
    (sql !== null && OTHER_LETTERS.test(sql) ? names.find(LETTERS, 'use') : undefined) ??
    unknownKind(node, names) ??
    parts.setting ??
    unknownIn(node, parts, names);
  if (unknown !== undefined) return unknown;
  if (parts.recodes) names.add(LETTERS, 'use', IN_OTHER_ENCODING);
  const block = fieldsIf(node, 'DoStmt');
  if (block) return (await judgeBody(sql, languageOf(block.args), 'a DO block', names)).unknown;
  const created = fieldsIf(node, 'CreateFunctionStmt');
  if (created) {
    const language = languageOfFunction(created);
    if (!LANGUAGES.has(language)) return `${nameOfFunction(created)} in the language ${language}`;
    const made = await learnFunction(sql, created, parts, names);
    return isWithinCode ? made : undefined;
  }
  const renamed = fieldsIf(node, 'RenameStmt');
  if (renamed) linkNewName(renamed, parts, names);
  else linkDefinition(node, parts, names);
  return undefined;
}

/** Built-in operators: user-defined ones have other names, or take types of users. */
const OPERATOR = /^(?:[-+*/%^=<>]|<>|!=|<=|>=|!?~{1,2}\*?|\|\||&&|@>|<@|->>?|#>>?|\?[|&]?|[|&#]|<<|>>|@@)$/;
const OF_SERVER = /^(?:pg_|information_schema$)/;

/**
 * The same for a statement in another database of the target's server, whose objects were not read: there only those of the server itself
 * are harmless.
 */
export function unknownElsewhere(node: Node, names: UnknownNames): string | undefined {
  if (!isHarmlessElsewhere(node)) return `${nameOfStatement(node)} in another database`;
  const { words, setting } = partsOf(node);
  if (setting !== undefined) return setting;
  const own = new Set(nodesWithin(node, 'CommonTableExpr').map(({ ctename }) => ctename));
  const relation = nodesWithin(node, 'RangeVar').find(
    ({ schemaname, relname = '' }) => !OF_SERVER.test(schemaname ?? relname) && !own.has(relname),
  );
  if (relation) return `the relation ${relation.relname} of another database`;
  for (const { name = [] } of nodesWithin(node, 'A_Expr')) {
    const operator = nameOfParts(name).name;
    if (/\W/.test(operator) && !OPERATOR.test(operator))
      return `the operator ${operator} of another database`;
  }
  for (const word of words) {
    const found = names.find(word, 'use');
    if (found !== undefined) return found;
  }
  return undefined;
}

function unknownKind(node: Node, names: UnknownNames): string | undefined {
  const kind = kindOf(node);
  if (runsOf(node) === 'unknown') return nameOfStatement(node);
  const extension = fieldsIf(node, 'CreateExtensionStmt') ?? fieldsIf(node, 'AlterExtensionStmt');
  const { extname = '' } = extension ?? {};
  if (extension && !HARMLESS_EXTENSIONS.has(extname)) return `the extension ${extname}`;
  const defines = !FIRES_NOTHING.has(kind) && !['none', 'reads'].includes(effectOf(node));
  return (
    (defines ? names.find(DEFINITIONS, 'use') : undefined) ??
    (isOfAllTables(node) ? names.find(TABLES, 'use') : undefined)
  );
}

/** Tells if a statement evaluates the expressions of indexes without naming their tables. */
function isOfAllTables(node: Node): boolean {
  return actionsOf(node).some(
    (action) =>
      (action.does === 'vacuum' && action.tables.length === 0) ||
      (action.does === 'cluster' && action.table === null) ||
      (action.does === 'reindex' && (action.object === null || action.kind === 'index')),
  );
}

function unknownIn(node: Node, { words, writes }: StatementParts, names: UnknownNames): string | undefined {
  if (runsOf(node) !== 'nothing')
    for (const word of words) {
      const found = names.find(word, 'use');
      if (found !== undefined) return found;
    }
  for (const relation of writes) {
    if (relation.startsWith('pg_')) return `a change of ${relation}`;
    const found = names.find(relation, 'write');
    if (found !== undefined) return found;
  }
  const cascades = actionsOf(node).some((action) => action.does === 'truncate' && action.cascade);
  return cascades ? names.find(TRIGGERS, 'use') : undefined;
}

/** Judges what a function does when it is called. @param sql its CREATE FUNCTION or CREATE PROCEDURE. */
export async function judgeFunction(
  sql: string | null,
  created: Tree.CreateFunctionStmt,
  names: UnknownNames,
): Promise<Judged> {
  return await judgeBody(sql, languageOfFunction(created), nameOfFunction(created), names);
}

function languageOfFunction({ options, sql_body: body }: Tree.CreateFunctionStmt): string {
  return body ? 'sql' : languageOf(options);
}

function nameOfFunction({ funcname }: Tree.CreateFunctionStmt): string {
  return `the function ${nameOfParts(funcname).name}()`;
}

/** Notes a function under its name. @returns what is not known of it. */
async function learnFunction(
  sql: string | null,
  created: Tree.CreateFunctionStmt,
  { words, writes }: StatementParts,
  names: UnknownNames,
): Promise<string | undefined> {
  const { name } = nameOfParts(created.funcname);
  const what = nameOfFunction(created);
  const judged = await judgeFunction(sql, created, names);
  const all = [...words, ...judged.words];
  const isKnown =
    judged.unknown === undefined &&
    all.every((word) => names.find(word, 'use') === undefined || word === name);
  if (!isKnown) {
    const { unknown } = judged;
    const found = unknown?.startsWith(what) ? unknown : what;
    names.add(name, 'use', found);
    return found;
  }
  for (const word of all) names.link(word, 'use', name);
  for (const relation of [...writes, ...judged.writes]) names.link(relation, 'write', name, 'use');
  return undefined;
}

/**
 * Judges code.
 * @param sql the statement that holds it; null if its text is not known.
 * @param what it judges, in words.
 */
async function judgeBody(
  sql: string | null,
  language: string,
  what: string,
  names: UnknownNames,
): Promise<Judged> {
  const words = new Set<string>();
  const writes = new Set<string>();
  const judged = (unknown: string | undefined): Judged => ({ words, writes, unknown });
  if (sql === null) return judged(`${what} within code`);
  const code = await codeOf(sql, language);
  if (code === UNREADABLE) return judged(`${what}, whose code cannot be read`);
  if (code.composes) return judged(`${what}, which executes texts that it puts together`);
  const nodes = [...code.nodes];
  const texts = new Map(code.texts);
  for (const text of code.dynamic) {
    const executed = await sqlCode(text);
    if (executed === UNREADABLE) return judged(`${what}, whose code cannot be read`);
    nodes.push(...executed.nodes);
    for (const [node, text] of executed.texts) texts.set(node, text);
  }
  for (const type of code.types) for (const [word] of type.matchAll(/[^\s."()[\]%]+/g)) words.add(word);
  for (const word of words) if (names.find(word, 'use') !== undefined) return judged(names.find(word, 'use'));
  for (const node of nodes) {
    if (reachOf(node) !== 'database') return judged(`${what} with ${nameOfStatement(node)}`);
    const unknown = await unknownInStatement(texts.get(node) ?? null, node, names, true);
    if (unknown !== undefined) return judged(unknown);
    const parts = partsOf(node);
    for (const word of parts.words) words.add(word);
    for (const relation of parts.writes) writes.add(relation);
  }
  return judged(undefined);
}

async function codeOf(sql: string, language: string): Promise<Code | typeof UNREADABLE> {
  return language === 'plpgsql' ? await plpgsqlCode(sql) : await sqlBody(sql, language);
}
