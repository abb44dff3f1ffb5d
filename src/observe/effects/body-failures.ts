import type { BrokenFunction } from '../../model/effect-facts.ts';
import type { SchemaSection } from '../../model/report.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { nameParts } from '../../postgres/sql/quote.ts';
import { signatureOf } from './broken-functions.ts';
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

/** Finds functions whose body the server took before the command, and takes no longer: its text was changed, or something that it uses. */
export async function newlyBroken(
  session: Session,
  before: BodiesBefore,
  schema: SchemaSection,
): Promise<BrokenFunction[]> {
  if (before.size === 0 || schema.changes.length + schema.renames.length === 0) return [];
  const mentions = mentionsOf(schema);
  const bodies = (await readFunctionBodies(session, null)).filter((body) => {
    const was = before.get(signatureOf(body));
    return was !== undefined && (was.definition !== body.definition || mentions.test(body.definition));
  });
  const found = await analyzed(session, bodies, async (body, broken: Map<string, BrokenFunction>) => {
    const name = signatureOf(body);
    const was = before.get(name);
    for await (const failure of failuresOf(session, body)) {
      if (was?.failures.has(failure.message)) continue;
      if (was?.definition !== body.definition && !isOfNewText(failure, body)) continue;
      broken.set(name, { function: name, names: null, error: failure.message, triggersOn: body.tables });
      return;
    }
  });
  return [...found.values()];
}

/** Names of the objects that changed, and of their tables: as words of a body. */
function mentionsOf({ changes, renames }: SchemaSection): RegExp {
  const objects = [...changes.map(({ object }) => object), ...renames.map(({ from }) => from)];
  const names = objects.flatMap((object) => nameParts(object.replace(/\(.*\)$/s, '')).slice(1));
  const words = [...new Set(names)].map((name) => name.replace(/[^\w\u0080-\uffff]/g, '\\$&'));
  return words.length === 0 ? /(?!)/ : new RegExp(`(?<![\\w$])(?:${words.join('|')})(?![\\w$])`, 'i');
}

/** Errors about a text that was not analyzed before: those that are sure to come when it runs. */
function isOfNewText({ sqlstate, isOpen }: BodyFailure, { definition }: FunctionBody): boolean {
  if (isOpen) return false;
  if (sqlstate === '42P01') return !/\bcreate\s+(?:\w+\s+)?(?:\w+\s+)?table\b/i.test(definition);
  return ['42703', '42883', '42P13', '42704'].includes(sqlstate);
}

/** Looks at one function after the other, until the time is over. */
async function analyzed<T>(
  session: Session,
  bodies: readonly FunctionBody[],
  look: (body: FunctionBody, found: Map<string, T>) => Promise<void>,
): Promise<Map<string, T>> {
  const found = new Map<string, T>();
  if (bodies.length === 0) return found;
  const deadline = performance.now() + BUDGET_MS;
  await analyzing(session, async () => {
    for (const body of bodies) if (performance.now() < deadline) await look(body, found);
  });
  return found;
}
