import { sqlstateOf } from '../errors.ts';
import type { Session } from '../postgres/connection/session.ts';
import { buildFactBase, encodeId, type Fact, type FactBase } from './pg-delta.ts';

const BEGIN = [
  'BEGIN',
  'SET LOCAL search_path = pg_catalog',
  // Event triggers of the database would run for each view.
  'SET LOCAL session_replication_role = replica',
  'SAVEPOINT before',
];
const UNDO = 'ROLLBACK TO SAVEPOINT before';
const PRINTED = "SELECT pg_get_viewdef('pg_temp.safemigrate_reprinted'::regclass) AS definition";

/**
 * Each version prints the same view in its own way, such as with fewer qualified names from 16 on. So views whose definitions differ
 * are created from their old definitions on the new server, in a transaction that is rolled back, and printed there.
 * @param session of a superuser, on the server that `after` was read from.
 * @returns `before`, with these definitions. A view that cannot be created keeps its own.
 */
export async function reprintViews(session: Session, before: FactBase, after: FactBase): Promise<FactBase> {
  const printed = new Map<string, string>();
  try {
    await session.queryAll(BEGIN);
    for (const { id, payload } of before.facts().filter(isView)) {
      const definition = String(payload.def);
      const now = after.get(id)?.payload.def;
      if (now === undefined || now === definition) continue;
      const again = await printAgain(session, definition);
      if (again !== null) printed.set(encodeId(id), again);
    }
  } finally {
    // A lost connection has rolled back by itself, and the error that is being thrown says so.
    await session.query('ROLLBACK').catch(() => undefined);
  }
  const facts = before.facts().map((fact) => {
    const definition = printed.get(encodeId(fact.id));
    return definition === undefined ? fact : { ...fact, payload: { ...fact.payload, def: definition } };
  });
  return buildFactBase(facts, [...before.edges], before.source);
}

function isView({ id }: Fact): boolean {
  return id.kind === 'view' || id.kind === 'materializedView';
}

/** @returns null if the server refuses the definition. */
async function printAgain(session: Session, definition: string): Promise<string | null> {
  const create = `CREATE TEMP VIEW safemigrate_reprinted AS ${definition.replace(/;\s*$/, '')}`;
  try {
    const [, rows] = await session.queryAll<{ definition: string }>([create, PRINTED, UNDO]);
    return rows?.[0]?.definition ?? null;
  } catch (error) {
    if (sqlstateOf(error) === undefined) throw error;
    await session.query(UNDO);
    return null;
  }
}
