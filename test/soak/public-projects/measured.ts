import type { Client } from 'pg';
import { LOCK_MODES, lockModeOf } from '../../../src/postgres/lock-modes.ts';

/** What PostgreSQL itself says that a migration did to tables that were there before, by their names afterwards. */
export interface Measured {
  readonly rewritten: string[];
  /** The strongest lock on each that keeps out writes or reads, as `SHARE public.orders`. */
  readonly locked: string[];
  readonly failed: boolean;
}

const TABLES = `
  SELECT c.oid::int8 AS oid, format('%s.%s', n.nspname, c.relname) AS name, c.relfilenode::int8 AS file
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
   WHERE c.relkind IN ('r', 'm', 'p') AND n.nspname = 'public'`;
const LOCKS = `
  SELECT relation::int8 AS oid, mode FROM pg_locks
   WHERE pid = pg_backend_pid() AND locktype = 'relation' AND granted`;

interface Table {
  readonly oid: string;
  readonly name: string;
  readonly file: string;
}

/** Runs a migration and commits it; asks pg_locks and pg_class meanwhile, and nothing of safemigrate. */
export async function measure(
  client: Client,
  { atomic, statements }: { readonly atomic: boolean; readonly statements: readonly string[] },
): Promise<Measured> {
  const before = await tables(client);
  const modes = new Map<string, number>();
  const parts = atomic ? [statements] : statements.map((statement) => [statement]);
  let failed = false;
  for (const part of parts) {
    await client.query('BEGIN');
    try {
      for (const statement of part) await client.query(statement);
      for (const { oid, mode } of (await client.query<{ oid: string; mode: string }>(LOCKS)).rows) {
        const strength = strengthOf(mode);
        modes.set(oid, Math.max(strength, modes.get(oid) ?? 0));
      }
      await client.query('COMMIT');
    } catch {
      await client.query('ROLLBACK');
      failed = true;
    }
  }
  const after = new Map((await tables(client)).map((table) => [table.oid, table]));
  return {
    rewritten: before.flatMap(({ oid, file }) => {
      const now = after.get(oid);
      return now && now.file !== file ? [now.name] : [];
    }),
    locked: before.flatMap(({ oid, name }) => {
      const mode = modes.get(oid) ?? 0;
      return mode >= LOCK_MODES.indexOf('SHARE')
        ? [`${LOCK_MODES[mode]} ${after.get(oid)?.name ?? name}`]
        : [];
    }),
    failed,
  };
}

async function tables(client: Client): Promise<Table[]> {
  return (await client.query<Table>(TABLES)).rows;
}

/** 0 for the weakest. */
function strengthOf(pgLocksMode: string): number {
  const mode = lockModeOf(pgLocksMode);
  return mode === undefined ? 0 : LOCK_MODES.indexOf(mode);
}
