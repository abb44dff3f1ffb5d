import type * as Tree from 'libpg-query';
import { SearchPaths } from '../model/search-paths.ts';
import type { Action, Name, NamedLock, StatementFacts } from '../model/statement-actions.ts';
import type { StatementSection } from '../model/statement-model.ts';
import { FIRST_USER_OID } from '../postgres/catalogue/user-objects.ts';
import type { Session } from '../postgres/connection/session.ts';
import { fieldsIf, namedLocks } from '../postgres/sql/classify-statement.ts';
import { languageOf, sqlBody, UNREADABLE } from '../postgres/sql/code-texts.ts';
import { OWN_TIMEOUT, setsLockTimeout } from '../postgres/sql/kinds/setting-actions.ts';
import { parseText } from '../postgres/sql/parse.ts';
import { type CodePath, plpgsqlPath } from '../postgres/sql/plpgsql-path.ts';
import { itemsOf, type Node, nameOfParts } from '../postgres/sql/tree.ts';

/** Locks that a CALL or a DO block that may commit takes by the statements of its body. */
export interface BodyLocks {
  /** Locks of statements that it runs whenever it ends without an error. */
  readonly certain: readonly NamedLock[];
  /** Locks of the other statements. */
  readonly possible: readonly NamedLock[];
  /** Parts of it that are not read, in words. */
  readonly unread: readonly string[];
  /** It sets a lock_timeout of its own. */
  readonly setsLockTimeout: boolean;
  /** It commits or rolls back within, or may, since not all of it is read. */
  readonly mayCommit: boolean;
}

const MAY_COMMIT = /^(?:CALL|DO)$/;

/** A CALL or DO that may have released locks before its end, which were only sampled. */
export function mayCommitWithin({ tag, exactness, explicit, error }: StatementSection): boolean {
  return exactness === 'sampled' && !explicit && error === null && MAY_COMMIT.test(tag ?? '');
}

const PROCEDURES = `
select pg_catalog.pg_get_functiondef(p.oid) as definition
from pg_catalog.pg_proc p join pg_catalog.pg_language l on l.oid = p.prolang
where p.prokind = 'p' and p.oid >= ${FIRST_USER_OID} and l.lanname in ('sql', 'plpgsql')
order by p.oid limit 500`;

/** Returns the CREATE PROCEDURE of each procedure in SQL or PL/pgSQL of the session's database. */
export async function readProcedures(session: Session): Promise<string[]> {
  return (await session.query<{ definition: string }>(PROCEDURES)).map(({ definition }) => definition);
}

/** A procedure as a statement created it; `since` is the index of that statement, 0 if it was there before. */
interface Procedure {
  readonly name: Name;
  /** Its arguments' types. */
  readonly types: readonly string[];
  readonly sql: string;
  readonly language: string;
  readonly since: number;
}

/**
 * Reads the bodies of the statements that may commit within, by the statement's index.
 * @param procedures the CREATE PROCEDURE of those that the database has after the command.
 * @param searchPath with which sessions begin.
 */
export async function readBodies(
  statements: readonly StatementSection[],
  parsed: ReadonlyMap<number, StatementFacts>,
  procedures: readonly string[],
  searchPath: readonly string[] = ['public'],
): Promise<Map<number, BodyLocks>> {
  const calling = statements.filter(mayCommitWithin);
  if (calling.length === 0) return new Map();
  const known: Procedure[] = [];
  for (const sql of procedures) known.push(...(await proceduresIn(sql, 0)));
  for (const { index, sql, error } of statements) {
    const creates = parsed.get(index)?.actions.some(({ does }) => does === 'create function') ?? false;
    if (creates && error === null) known.push(...(await proceduresIn(sql, index)));
  }
  const bodies = new Map<number, BodyLocks>();
  const paths = new SearchPaths(statements, parsed, searchPath);
  for (const statement of calling) {
    const { index, sql } = statement;
    const place = { known, at: index, path: paths.at(statement), depth: 0 };
    bodies.set(index, await locksOfNodes(await nodesIn(sql), sql, place));
  }
  return bodies;
}

/** Adds to what a statement asks for that a called procedure sets a lock_timeout, or ends transactions. */
export function withBodies(
  parsed: ReadonlyMap<number, StatementFacts>,
  bodies: ReadonlyMap<number, BodyLocks>,
): Map<number, StatementFacts> {
  return new Map(
    [...parsed].map(([index, facts]) => {
      const body = bodies.get(index);
      if (!body) return [index, facts];
      const timeout = body.setsLockTimeout ? [OWN_TIMEOUT] : [];
      const end: Action[] = body.mayCommit ? [{ does: 'end transactions' }] : [];
      return [index, { ...facts, actions: [...facts.actions, ...timeout, ...end] }];
    }),
  );
}

async function nodesIn(sql: string): Promise<Node[]> {
  return ((await parseText(Buffer.from(sql))) ?? []).map(({ node }) => node);
}

async function proceduresIn(sql: string, since: number): Promise<Procedure[]> {
  return (await nodesIn(sql)).flatMap((node) => {
    const created = fieldsIf(node, 'CreateFunctionStmt');
    if (!created?.is_procedure) return [];
    const types = itemsOf<Tree.FunctionParameter>(created.parameters, 'FunctionParameter').map(
      ({ argType }) => nameOfParts(argType?.names).name,
    );
    return [
      { name: nameOfParts(created.funcname), types, sql, language: languageOf(created.options), since },
    ];
  });
}

interface Place {
  readonly known: readonly Procedure[];
  /** Index of the statement that calls. */
  readonly at: number;
  /** The schemas in which an unqualified name is looked up. */
  readonly path: readonly string[];
  readonly depth: number;
}

/** A procedure may call itself. */
const DEEPEST = 8;

const NONE: BodyLocks = { certain: [], possible: [], unread: [], setsLockTimeout: false, mayCommit: false };

async function locksOfNodes(nodes: readonly Node[], sql: string, place: Place): Promise<BodyLocks> {
  let locks = NONE;
  for (const node of nodes) {
    const block = fieldsIf(node, 'DoStmt');
    const call = fieldsIf(node, 'CallStmt')?.funccall;
    const own = block
      ? await locksOfBody(sql, languageOf(block.args), place)
      : call
        ? await locksOfCall(call, place)
        : { ...NONE, certain: namedLocks(node) };
    locks = together(locks, own);
  }
  return locks;
}

async function locksOfCall({ funcname, args = [] }: Tree.FuncCall, place: Place): Promise<BodyLocks> {
  const name = nameOfParts(funcname);
  const alike = proceduresNamed(name, place);
  const last = alike.findLast(({ since }) => since < place.at);
  // One that was replaced later is not in the catalogue as it was.
  const isOther = alike.some(
    (each) =>
      each.types.join() !== last?.types.join() ||
      (each.since > place.at && last.since === 0) ||
      (each.name.schema !== last.name.schema && each.since === last.since),
  );
  if (last && !isOther && args.length <= last.types.length && place.depth < DEEPEST)
    return await locksOfBody(last.sql, last.language, { ...place, depth: place.depth + 1 });
  const unread = [`the procedure ${name.name}`];
  if (alike.length === 0 || place.depth >= DEEPEST) return { ...NONE, unread, mayCommit: true };
  // Which of them it is matters only if one commits. Calls within them are not followed, as each may again be one of many.
  const bodies = await Promise.all(
    alike.map(({ sql, language }) => locksOfBody(sql, language, { ...place, depth: DEEPEST })),
  );
  return { ...NONE, unread, mayCommit: bodies.some(({ mayCommit }) => mayCommit) };
}

/** The procedures that the name may mean; an unqualified one means those of the first schema of the path that has any. */
function proceduresNamed({ schema, name }: Name, { known, path }: Place): Procedure[] {
  const named = known.filter((each) => each.name.name === name);
  const wanted = schema ?? path.find((first) => named.some((each) => each.name.schema === first)) ?? null;
  return wanted === null
    ? named
    : named.filter((each) => each.name.schema === wanted || each.name.schema === null);
}

async function locksOfBody(sql: string, language: string, place: Place): Promise<BodyLocks> {
  const path = await pathThrough(sql, language);
  if (path === null) return { ...NONE, unread: ['a body that could not be parsed'], mayCommit: true };
  const certain = await locksOfNodes(path.certain, '', place);
  const possible = await locksOfNodes(path.possible, '', place);
  const unread = [
    ...certain.unread,
    ...possible.unread,
    ...(path.composes ? ['texts that it executes'] : []),
  ];
  const locks = {
    certain: certain.certain,
    possible: [...certain.possible, ...possible.certain, ...possible.possible],
    unread,
    setsLockTimeout: setsLockTimeout(sql) || certain.setsLockTimeout,
    mayCommit: path.commits || certain.mayCommit || possible.mayCommit,
  };
  // Which relation a name means is known only when it runs.
  return /search_path/i.test(sql) ? withoutBareNames(locks) : locks;
}

async function pathThrough(sql: string, language: string): Promise<CodePath | null> {
  if (language === 'plpgsql') return await plpgsqlPath(sql);
  const code = await sqlBody(sql, language);
  return code === UNREADABLE ? null : { certain: code.nodes, possible: [], composes: false, commits: false };
}

function withoutBareNames({ certain, possible, unread, ...more }: BodyLocks): BodyLocks {
  const hasSchema = ({ relation }: NamedLock) => relation.schema !== null;
  return {
    ...more,
    certain: certain.filter(hasSchema),
    possible: possible.filter(hasSchema),
    unread: [...unread, 'names in a search_path that it sets'],
  };
}

function together(one: BodyLocks, other: BodyLocks): BodyLocks {
  return {
    certain: [...one.certain, ...other.certain],
    possible: [...one.possible, ...other.possible],
    unread: [...one.unread, ...other.unread],
    setsLockTimeout: one.setsLockTimeout || other.setsLockTimeout,
    mayCommit: one.mayCommit || other.mayCommit,
  };
}
