import type { Session } from '../postgres/connection/session.ts';
import { fieldsIf } from '../postgres/sql/classify-statement.ts';
import { parseText } from '../postgres/sql/parse.ts';
import { HARMLESS_EXTENSIONS, isHarmlessFunction, NOT_HARMLESS_IN_THEM } from './harmless-functions.ts';
import { judgeFunction } from './harmless-statement.ts';
import { SERVER_FUNCTIONS } from './server-calls.ts';
import {
  BODIES,
  callOf,
  DOUBTFUL_BUILT_IN,
  FOREIGN_CODE,
  type FunctionRow,
  REACHED,
  type ReachedRow,
} from './unknown-code-sql.ts';
import { ANYTHING, DEFINITIONS, TABLES, TRIGGERS, UnknownNames } from './unknown-names.ts';

/** Words without which the statements in a body are harmless. */
const WORDS = [
  ...[
    'execute',
    'create',
    'alter',
    'drop',
    'grant',
    'revoke',
    'copy',
    'load',
    'reassign',
    'import',
    'vacuum',
  ],
  ...['reindex', 'cluster', 'security', 'lock', 'set_config', 'allow_system_table_mods', 'client_encoding'],
  ...['standard_conforming_strings', 'backslash_quote'],
];
/** The same for names that are spelt by code points, settings that name files or functions, and changes of catalogues. */
const DOUBTFUL = new RegExp(
  `\\b(?:${WORDS.join('|')}|\\w+_path|\\w+_preload_libraries|pl\\w+\\.\\w+)\\b|u&["']|` +
    '\\b(?:insert|update|delete|merge|truncate)\\b[^]*\\bpg_',
  'i',
);
const PARTS_OF_DOUBTFUL = [...WORDS, '_path', '_preload_libraries', 'pl\\w+\\.', 'u&', 'pg_'];

/** The code of a database that is not known to be harmless. */
export interface UnknownCode {
  readonly names: UnknownNames;
  /** Built-in functions among it, by their OIDs. */
  readonly builtIn: ReadonlySet<number>;
  /** Some of it acts with rights that the role lacks, or SET ROLE gives it such rights. */
  readonly borrowsRights: boolean;
  /** The role may rewrite the catalogues that all databases share. */
  readonly mayRewriteShared: boolean;
}

/** Reads what of the session's database leads to code that is not known to be harmless, however many objects are in between. */
export async function readUnknownCode(session: Session): Promise<UnknownCode> {
  const names = new UnknownNames();
  for (const name of [...SERVER_FUNCTIONS.keys(), ...NOT_HARMLESS_IN_THEM])
    names.add(name, 'use', `${name}()`);
  const [row] = await session.query<{ functions: string; mayBecome: boolean; mayRewriteShared: boolean }>(
    DOUBTFUL_BUILT_IN,
  );
  const builtIn = (row?.functions ?? '').split(',').flatMap((text) => {
    const [oid = '', name = '', granted] = text.split(' ');
    return isHarmlessFunction(name) ? [] : [{ oid, name, borrowsRights: granted !== undefined }];
  });
  const foreign = await session.query<FunctionRow>(FOREIGN_CODE, [
    [...HARMLESS_EXTENSIONS],
    NOT_HARMLESS_IN_THEM,
  ]);
  for (const { name } of builtIn) names.add(name, 'use', `${name}()`);
  for (const { name } of foreign) names.add(name, 'use', `the function ${name}()`);
  const rows = [...builtIn, ...foreign];
  const found = await findUses(session, names, {
    oids: new Set(rows.map(({ oid }) => oid)),
    calls: callOf(builtIn.map(({ oid }) => oid).join('|')),
    added: [],
    isFirst: true,
  });
  return {
    names,
    builtIn: new Set(builtIn.map(({ oid }) => Number(oid))),
    mayRewriteShared: row?.mayRewriteShared !== false,
    borrowsRights:
      row?.mayBecome === true || found.borrowsRights || rows.some(({ borrowsRights }) => borrowsRights),
  };
}

/** Adds what of the session's database comes to names that the command has made or replaced. */
export async function findUsesOf(
  session: Session,
  names: UnknownNames,
  added: readonly string[],
): Promise<void> {
  await findUses(session, names, {
    oids: new Set(),
    calls: callOf('-'),
    added,
    isFirst: false,
  });
  names.takeAdded();
}

interface Seeds {
  /** Functions. */
  readonly oids: Set<string>;
  /** A pattern of the built-in ones in expressions. */
  readonly calls: string;
  readonly added: readonly string[];
  /** Bodies are judged for the first time. */
  readonly isFirst: boolean;
}

async function findUses(session: Session, names: UnknownNames, { oids, calls, added, isFirst }: Seeds) {
  let borrowsRights = false;
  let named = added;
  let words = isFirst ? names.takeAdded() : added;
  for (let round = 1; words.length > 0; round++) {
    const before = oids.size;
    for (const body of await bodiesWith(session, words, isFirst && round === 1)) {
      const unknown = oids.has(body.oid) ? undefined : await unknownIn(body, names);
      if (unknown === undefined) continue;
      oids.add(body.oid);
      borrowsRights ||= body.borrowsRights;
      const what = `the function ${body.name}()`;
      names.add(body.name, 'use', unknown.startsWith(what) ? unknown : what);
    }
    if (round === 1 || oids.size > before)
      for (const row of await session.query<ReachedRow>(REACHED, [[...oids], calls, named]))
        addReached(row, names, oids);
    named = [];
    words = names.takeAdded();
  }
  return { borrowsRights };
}

/** So much of a name the server looks for: whole words in a pattern of hundreds would take it 100 times as long. */
const START = /^(?:pg_|.{1,5})/s;

async function bodiesWith(
  session: Session,
  names: readonly string[],
  isFirst: boolean,
): Promise<readonly FunctionRow[]> {
  const starts = new Set(names.map((name) => escaped(START.exec(name)?.[0] ?? '')));
  const bodies = await session.query<FunctionRow>(BODIES, [
    [...(isFirst ? PARTS_OF_DOUBTFUL : []), ...starts].join('|'),
    [...HARMLESS_EXTENSIONS],
  ]);
  const mentioned = new RegExp(names.map(wholeName).join('|'), 'i');
  return bodies.filter(
    ({ definition }) =>
      definition !== null && (mentioned.test(definition) || (isFirst && DOUBTFUL.test(definition))),
  );
}

async function unknownIn(
  { name, definition }: FunctionRow,
  names: UnknownNames,
): Promise<string | undefined> {
  const [statement] = (await parseText(Buffer.from(definition ?? ''))) ?? [];
  const created = statement && fieldsIf(statement.node, 'CreateFunctionStmt');
  return created ? (await judgeFunction(definition, created, names)).unknown : `the function ${name}()`;
}

/** The name as a pattern, of the server's or of JavaScript. */
function escaped(name: string): string {
  return name.replace(/[^\w\u0080-\uffff]/g, '\\$&');
}

/** Operators are no words. */
function wholeName(name: string): string {
  return /^[\w\u0080-\uffff]/.test(name) ? `(?<![\\w$])${escaped(name)}(?![\\w$])` : escaped(name);
}

function addReached(
  { kind, name, oid, writes, maintained, through }: ReachedRow,
  names: UnknownNames,
  oids: Set<string>,
): void {
  const why = through === null ? undefined : names.find(through, 'use');
  const trigger = `a trigger of ${name}${why === undefined ? '' : `, which runs ${why}`}`;
  if (kind === 'event trigger') names.add(DEFINITIONS, 'use', `the event trigger ${name}`);
  else if (kind === 'login trigger') names.add(ANYTHING, 'use', `the login trigger ${name}`);
  else if (kind === 'anything') names.add(ANYTHING, 'use', `a cast or an operator class of the type ${name}`);
  else if (writes) names.add(name, 'write', kind === 'table' ? trigger : `the view ${name}`);
  else names.add(name, 'use', `the ${kind} ${name}${kind === 'function' ? '()' : ''}`);
  if (kind === 'function') oids.add(oid);
  if (kind !== 'table') return;
  if (writes) names.add(TRIGGERS, 'use', trigger);
  if (maintained) names.add(TABLES, 'use', `the table ${name}`);
}
