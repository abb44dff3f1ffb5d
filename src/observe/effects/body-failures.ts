import type { BrokenFunction } from '../../model/effect-facts.ts';
import type { SchemaSection } from '../../model/report.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { displayName, nameParts } from '../../postgres/sql/quote.ts';
import { signatureOf } from './broken-functions.ts';
import { EXTENSION_MEMBERS } from './extension-definitions.ts';
import {
  analyzing,
  type BodyFailure,
  type FunctionBody,
  failuresOf,
  readFunctionBodies,
} from './function-bodies.ts';

/** A function before the command. */
interface BodyBefore {
  readonly definition: string;
  /** Messages of the server about its body. */
  readonly failures: ReadonlySet<string>;
}

/** By signature; functions that no time was left for are missing. */
export type BodiesBefore = ReadonlyMap<string, BodyBefore>;

/** Time for all functions, before the command and after it. */
const BUDGET_MS = 1_000;

// To create a function, even for a moment, would run them.
const LISTENS = `select exists (select from pg_catalog.pg_event_trigger where evtenabled <> 'D') as listens`;

/** Analyzes the bodies of all functions in SQL and PL/pgSQL, and keeps the errors that the server finds. */
export async function readBodiesBefore(session: Session): Promise<BodiesBefore> {
  const [row] = await session.query<{ listens: boolean }>(LISTENS);
  if (row?.listens) return new Map();
  return analyzed(
    session,
    await readFunctionBodies(session, null),
    async (body, found: Map<string, BodyBefore>) => {
      const failures = new Set<string>();
      for await (const { message } of failuresOf(session, body)) failures.add(message);
      found.set(signatureOf(body), { definition: body.definition, failures });
    },
  );
}

/**
 * Finds functions whose body the server took before the command, and takes no longer: its text was changed, or something that it uses.
 * @param moved extensions that are in another schema now.
 */
export async function newlyBroken(
  session: Session,
  before: BodiesBefore,
  schema: SchemaSection,
  moved: readonly string[],
): Promise<BrokenFunction[]> {
  if (before.size === 0 || schema.changes.length + schema.renames.length + moved.length === 0) return [];
  const changed = [...changedObjects(schema), ...(moved.length > 0 ? await membersOf(session, moved) : [])];
  const bodies = (await readFunctionBodies(session, null)).filter((body) => {
    const was = before.get(signatureOf(body));
    return (
      was !== undefined &&
      !isUnused(body) &&
      (was.definition !== body.definition || changed.some((each) => mentions(body, each)))
    );
  });
  const found = await analyzed(session, bodies, async (body, broken: Map<string, BrokenFunction>) => {
    const name = signatureOf(body);
    const was = before.get(name);
    for await (const failure of failuresOf(session, body)) {
      if (was?.failures.has(failure.message)) continue;
      if (was?.definition !== body.definition && !isOfNewText(failure, body)) continue;
      broken.set(name, {
        function: name,
        names: null,
        mentions: mentionedBy(body, changed),
        error: failure.message,
        triggersOn: body.tables,
      });
      return;
    }
  });
  return [...found.values()];
}

/** Tells if no trigger runs a trigger function, so that its rows have no type. */
function isUnused({ result, tables }: FunctionBody): boolean {
  return result === 'trigger' && tables.length === 0;
}

/** An object that changed, and its name without its schema, as words of a body: `orders`, `note`. */
interface ChangedObject {
  readonly object: string;
  readonly words: readonly RegExp[];
}

function changedObjects({ changes, renames }: SchemaSection): ChangedObject[] {
  const names = [...changes.map(({ object }) => object), ...renames.map(({ from }) => from)].map((object) =>
    object.replace(/\(.*\)$/s, ''),
  );
  return [...new Set(names)].map((object) => ({
    object,
    words: nameParts(object)
      .slice(1)
      .map((name) => name.replace(/[^\w\u0080-\uffff]/g, '\\$&'))
      .map((name) => new RegExp(`(?<![\\w$])${name}(?![\\w$])`, 'i')),
  }));
}

/** The extensions, by the names of their functions, types, tables and operators. */
async function membersOf(session: Session, extensions: readonly string[]): Promise<ChangedObject[]> {
  const rows = await session.query<{ extension: string; names: string[] }>(EXTENSION_MEMBERS, [extensions]);
  return rows.map(({ extension, names }) => {
    const patterns = names.map((name) => {
      const literally = name.replace(/[^\w\u0080-\uffff]/g, '\\$&');
      return /^\w/.test(name) ? `(?<![\\w$])${literally}(?![\\w$])` : literally;
    });
    return { object: displayName(extension), words: [new RegExp(patterns.join('|'), 'i')] };
  });
}

function mentions({ definition }: FunctionBody, { words }: ChangedObject): boolean {
  return words.some((word) => word.test(definition));
}

/** Changed objects in a body: all of a table in it, since SELECT * names no column. */
function mentionedBy({ definition, tables }: FunctionBody, changed: readonly ChangedObject[]): string[] {
  const text = `${definition} ${tables.join(' ')}`;
  const ofTables = changed.filter(({ words: [table] }) => table?.test(text));
  const found =
    ofTables.length > 0 ? ofTables : changed.filter(({ words }) => words.some((word) => word.test(text)));
  return found.map(({ object }) => object);
}

/** Errors about a text that was not analyzed before: those that are sure to come when it runs. */
function isOfNewText({ sqlstate, isOpen }: BodyFailure, { definition }: FunctionBody): boolean {
  if (isOpen) return false;
  if (sqlstate === '42P01') return !/\bcreate\s+(?:\w+\s+)?(?:\w+\s+)?table\b/i.test(definition);
  return ['42703', '42883', '42P13', '42704'].includes(sqlstate);
}

/** Bodies whose queries are sent before the answers to others: an answer takes longer than the analysis. */
const AHEAD = 8;

/** Looks at the functions, until the time is over. */
async function analyzed<T>(
  session: Session,
  bodies: readonly FunctionBody[],
  look: (body: FunctionBody, found: Map<string, T>) => Promise<void>,
): Promise<Map<string, T>> {
  const found = new Map<string, T>();
  if (bodies.length === 0) return found;
  const deadline = performance.now() + BUDGET_MS;
  const waiting = bodies.values();
  const lookOn = async () => {
    for (const body of waiting) if (performance.now() < deadline) await look(body, found);
  };
  await analyzing(session, () => Promise.all(Array.from({ length: AHEAD }, lookOn)));
  return found;
}
