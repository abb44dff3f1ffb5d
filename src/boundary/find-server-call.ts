import type * as Tree from 'libpg-query';
import type { Name } from '../model/statement-actions.ts';
import { evaluatesExpressions, fieldsIf } from '../postgres/sql/classify-statement.ts';
import {
  type Code,
  languageOf,
  literalsOf,
  plpgsqlCode,
  sqlBody,
  sqlCode,
  UNREADABLE,
} from '../postgres/sql/code-texts.ts';
import {
  constantOf,
  itemsOf,
  kindOf,
  type Node,
  nameOf,
  nameOfParts,
  nodesWithin,
  walkTree,
} from '../postgres/sql/tree.ts';
import { ANY_ARGUMENTS, type ServerCall, type ServerCalls, throughName } from './server-calls.ts';
import { classifyScope, type Names } from './statement-scope.ts';
import { UnreadCode } from './unread-code.ts';

/** Facts that a search of a statement asks for. */
export interface Known {
  readonly calls: ServerCalls;
  readonly names: Names;
}

/** Words of statements that act beyond their database, for code in which they stand. */
const BEYOND =
  /\b(?:role|user|group|database|tablespace|program|copy|owned|system|subscription|grant|revoke|lock|load|reindex|repack|language\s+['"]*c)\b/i;
/** Functions that execute their text. */
const EXECUTES =
  /^(?:query_to_xml|query_to_xmlschema|query_to_xml_and_xmlschema|ts_stat|crosstab\w*|connectby)$/;
/** A SET names no database. */
const NO_NAMES: Names = { target: '', clone: '' };
const ENDS_SESSIONS: ReadonlySet<string> = new Set(['pg_terminate_backend', 'pg_cancel_backend']);
const WRITES: ReadonlySet<string> = new Set(['InsertStmt', 'UpdateStmt', 'DeleteStmt', 'MergeStmt']);

/**
 * Returns what a statement would do beyond the clone by the functions that it calls: itself, in a DO block, in texts that a block
 * executes, or through functions, views, triggers and rules of the user's. Remembers those that it creates, which are
 * searched when they are used.
 * @param sql the text of the statement, and nothing else
 */
export async function findServerCall(sql: string, node: Node, known: Known): Promise<ServerCall | undefined> {
  const { calls } = known;
  if (fieldsIf(node, 'DoStmt')) return await inBlock(sql, node, known);
  const created = fieldsIf(node, 'CreateFunctionStmt');
  if (created) return await learnFunction(sql, created, known);
  const prepares = fieldsIf(node, 'PrepareStmt');
  if (prepares) calls.prepare(prepares.name ?? '', prepares.query);
  const executes = fieldsIf(node, 'ExecuteStmt');
  const prepared = executes && inTree(calls.prepared(executes.name ?? ''), known, true);
  if (prepared) return prepared;
  if (!calls.mentions(sql)) return undefined;
  const view = fieldsIf(node, 'ViewStmt');
  if (view) return learnView(nameOf(view.view), view.query, known);
  const rule = fieldsIf(node, 'RuleStmt');
  if (rule) return learnWrites(nameOf(rule.relation), inTree(rule, known, true), calls);
  const trigger = fieldsIf(node, 'CreateTrigStmt');
  if (trigger) {
    const call = calls.called(nameOfParts(trigger.funcname), undefined) ?? inTree(trigger, known, false);
    return learnWrites(nameOf(trigger.relation), call, calls);
  }
  const renamed = fieldsIf(node, 'RenameStmt');
  if (renamed) return learnNewName(renamed, calls);
  const dropped = fieldsIf(node, 'DropStmt');
  if (dropped) return learnDropped(dropped, calls);
  return inTree(node, known, evaluatesExpressions(node)) ?? inDefinition(node, calls);
}

async function inBlock(sql: string, node: Node, known: Known): Promise<ServerCall | undefined> {
  const call = await inBody(sql, languageOf(fieldsIf(node, 'DoStmt')?.args), known);
  return call && { ...call, what: `DO with ${call.what}` };
}

/** Searches the body of a function or a DO block, given with the statement that holds it. */
async function inBody(sql: string, language: string, known: Known): Promise<ServerCall | undefined> {
  if (!known.calls.mentions(sql) && !BEYOND.test(sql)) return undefined;
  const code = language === 'plpgsql' ? await plpgsqlCode(sql) : await sqlBody(sql, language);
  return code === UNREADABLE
    ? (known.calls.named(sql) ?? inUnread(sql, known.calls))
    : await inCode(code, known);
}

/** Searches a statement whose body only a newer grammar reads. */
function inUnread(sql: string, calls: ServerCalls): ServerCall | undefined {
  const code = new UnreadCode(calls, { forbidden: new Set(), matters: () => true });
  return code.push(Buffer.from(sql)) ?? code.end();
}

async function inCode({ nodes, dynamic }: Code, known: Known): Promise<ServerCall | undefined> {
  for (const node of nodes) {
    const scope = classifyScope(node, known.names);
    if (scope.kind === 'beyond') return scope;
    if (scope.kind === 'redirect')
      return { what: scope.what, why: 'it names the target within code', leaves: 'database' };
    const call = inTree(node, known, true);
    if (call) return call;
  }
  for (const text of dynamic) {
    const call = await inText(text, known);
    if (call) return call;
  }
  return undefined;
}

/** Searches a text that is executed, or a part of one. */
async function inText(text: string, known: Known): Promise<ServerCall | undefined> {
  if (!known.calls.mentions(text) && !BEYOND.test(text)) return undefined;
  const code = await sqlCode(text);
  if (code === UNREADABLE) return known.calls.named(text);
  // The arguments may be in the next part.
  return (await inCode(code, known)) ?? known.calls.named(/[\w$]*\s*$/.exec(text)?.[0] ?? '');
}

/** The first call within a part of a tree. @param runs its relations are read or written. */
function inTree(part: unknown, known: Known, runs: boolean): ServerCall | undefined {
  const { calls } = known;
  let found: ServerCall | undefined;
  walkTree(part, (key, fields) => {
    if (found) return;
    // CALL holds its call as a field.
    if (key === 'FuncCall' || key === 'funccall') found = ofCall(fields as Tree.FuncCall, calls);
    else if (key === 'RangeVar' && runs) found = ofRelation(nameOf(fields as Tree.RangeVar), 'read', calls);
    else if (WRITES.has(key)) found = ofTarget(fields as Tree.InsertStmt, calls);
    else if (key === 'CopyStmt') {
      const { relation, is_from: isFrom } = fields as Tree.CopyStmt;
      found = ofRelation(nameOf(relation), isFrom ? 'write' : 'read', calls);
    } else if (key === 'RefreshMatViewStmt')
      found = ofRelation(nameOf((fields as Tree.RefreshMatViewStmt).relation), 'read', calls);
    else if (key === 'TruncateStmt') found = ofTruncated(fields as Tree.TruncateStmt, calls);
  });
  return found;
}

function ofCall({ funcname, args = [] }: Tree.FuncCall, calls: ServerCalls): ServerCall | undefined {
  const name = nameOfParts(funcname);
  if (ENDS_SESSIONS.has(name.name) && isOwnPid(args[0])) return undefined;
  if (EXECUTES.test(name.name)) {
    const call = literalsOf(args).flatMap((text) => calls.named(text) ?? [])[0];
    if (call) return call;
  }
  const call = calls.called(name, args.length) ?? ofSetting(name.name, args[0]);
  return call && throughName(name.name, call);
}

/** set_config() does what SET does. */
function ofSetting(name: string, argument: Tree.Node | undefined): ServerCall | undefined {
  if (name !== 'set_config') return undefined;
  const scope = classifyScope(
    { VariableSetStmt: { kind: 'VAR_SET_VALUE', name: constantOf(argument) } },
    NO_NAMES,
  );
  return scope.kind === 'beyond' ? scope : undefined;
}

function isOwnPid(argument: Tree.Node | undefined): boolean {
  return (
    argument !== undefined &&
    'FuncCall' in argument &&
    nameOfParts(argument.FuncCall.funcname).name === 'pg_backend_pid'
  );
}

/** DML reads a view that it writes through. */
function ofTarget({ relation }: Tree.InsertStmt, calls: ServerCalls): ServerCall | undefined {
  const name = nameOf(relation);
  return ofRelation(name, 'write', calls) ?? ofRelation(name, 'read', calls);
}

function ofTruncated({ relations }: Tree.TruncateStmt, calls: ServerCalls): ServerCall | undefined {
  const found = itemsOf<Tree.RangeVar>(relations, 'RangeVar').map((each) =>
    ofRelation(nameOf(each), 'write', calls),
  );
  return found.find((call) => call !== undefined);
}

function ofRelation(name: Name, on: 'read' | 'write', calls: ServerCalls): ServerCall | undefined {
  const call = calls.relation(name, on);
  const what = `${on === 'read' ? 'a query of' : 'a change of'} ${name.name}`;
  if (call === undefined || call.what === what) return call;
  return { ...call, what: `${what}, which runs ${call.what.replace(/^.*, which runs /, '')}` };
}

/** Objects that name functions without calling them: operators, aggregates, casts, event triggers. */
function inDefinition(node: Node, calls: ServerCalls): ServerCall | undefined {
  const names: Name[] = [];
  const add = (parts: readonly Tree.Node[] | undefined) => names.push(nameOfParts(parts));
  for (const each of fieldsIf(node, 'DefineStmt')?.definition ?? [])
    if ('DefElem' in each && each.DefElem.arg && 'TypeName' in each.DefElem.arg)
      add(each.DefElem.arg.TypeName.names);
  add(fieldsIf(node, 'CreateCastStmt')?.func?.objname);
  add(fieldsIf(node, 'CreateEventTrigStmt')?.funcname);
  for (const name of names) {
    const call = calls.called(name, undefined);
    if (call) return { ...call, what: `${kindOf(node).replace(/Stmt$/, '')} with ${call.what}` };
  }
  return undefined;
}

/** Returns what a function does beyond the clone if it is called. @param sql its CREATE FUNCTION or CREATE PROCEDURE. */
export function callOfFunction(
  sql: string,
  options: readonly Tree.Node[] | undefined,
  known: Known,
): Promise<ServerCall | undefined> {
  return inBody(sql, languageOf(options), known);
}

async function learnFunction(
  sql: string,
  { funcname, options }: Tree.CreateFunctionStmt,
  known: Known,
): Promise<undefined> {
  const name = nameOfParts(funcname);
  const call = (await inBody(sql, languageOf(options), known)) ?? null;
  if (call || known.calls.mentions(name.name)) known.calls.learnFunction({ ...name, ...ANY_ARGUMENTS, call });
}

/** Reading a view reads its relations, and writing to it writes to them. */
function learnView(name: Name, query: unknown, known: Known): undefined {
  const { calls } = known;
  const written = nodesWithin(query, 'RangeVar').flatMap(
    (range) => calls.relation(nameOf(range), 'write') ?? [],
  );
  calls.setRelation({ ...name, on: 'read', call: inTree(query, known, true) ?? null });
  calls.setRelation({ ...name, on: 'write', call: written[0] ?? null });
}

function learnWrites(name: Name, call: ServerCall | undefined, calls: ServerCalls): undefined {
  if (call) calls.setRelation({ ...name, on: 'write', call });
}

/** A function or a relation keeps what it runs under its new name. */
function learnNewName({ relation, object, newname = '' }: Tree.RenameStmt, calls: ServerCalls): undefined {
  if (object && 'ObjectWithArgs' in object) {
    const former = nameOfParts(object.ObjectWithArgs.objname);
    const call = calls.called(former, undefined);
    if (call) calls.learnFunction({ schema: former.schema, name: newname, ...ANY_ARGUMENTS, call });
  }
  if (!relation) return;
  const former = nameOf(relation);
  for (const on of ['read', 'write'] as const) {
    const call = calls.relation(former, on);
    if (call) calls.setRelation({ schema: former.schema, name: newname, on, call });
  }
}

/** Without its trigger or rule a table runs nothing more. */
function learnDropped({ removeType, objects = [] }: Tree.DropStmt, calls: ServerCalls): undefined {
  if (removeType !== 'OBJECT_TRIGGER' && removeType !== 'OBJECT_RULE') return;
  for (const object of objects) {
    const table = 'List' in object ? nameOfParts(object.List.items?.slice(0, -1)) : undefined;
    if (table && calls.relation(table, 'write')) calls.setRelation({ ...table, on: 'write', call: null });
  }
}
