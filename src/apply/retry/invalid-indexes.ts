import type { Session } from '../../postgres/connection/session.ts';
import { concurrentFailure, fieldsIf } from '../../postgres/sql/classify-statement.ts';
import { identifier } from '../../postgres/sql/quote.ts';
import type { Node } from '../../postgres/sql/tree.ts';
import type { Intent } from '../../proxy/observed.ts';

interface IndexName {
  readonly name: string;
  readonly schema: string | null;
  readonly table: string;
}

interface Row {
  oid: number;
  schema: string;
  name: string;
}

// An index that another session is building is not valid either.
const INVALID = `
SELECT i.indexrelid::int8::float8 AS oid, n.nspname::text AS schema, c.relname::text AS name
  FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
  JOIN pg_namespace n ON n.oid = t.relnamespace
 WHERE NOT i.indisvalid AND t.relname = $1 AND ($2::text IS NULL OR n.nspname = $2)
   AND c.relname = $3
   AND NOT EXISTS (SELECT FROM pg_stat_progress_create_index p WHERE p.index_relid = i.indexrelid)`;

/**
 * Drops the invalid index that a failed CREATE INDEX CONCURRENTLY leaves, since it would make the next attempt fail. It drops an
 * index only if it is the single new invalid one with the statement's name and table. If the statement has no name for the
 * index, it could be another session's: then nothing is dropped or retried.
 */
export class InvalidIndexes {
  readonly #connect: () => Promise<Session>;
  /** OIDs of the invalid indexes before the statement that runs, by session. */
  readonly #before = new Map<number, ReadonlySet<number>>();

  constructor(connect: () => Promise<Session>) {
    this.#connect = connect;
  }

  /** Notes the invalid indexes before the statement is sent. */
  async remember({ session, parsed }: Intent): Promise<void> {
    this.#before.delete(session);
    const index = parsed && indexNameIn(parsed.node);
    if (!index?.name) return;
    const rows = await this.#with((own) => find(own, index));
    if (rows) this.#before.set(session, new Set(rows.map(({ oid }) => oid)));
  }

  /** Removes what a failed statement left. @returns whether the statement can be retried. Never rejects. */
  async clear({ session, parsed }: Intent): Promise<boolean> {
    const index = parsed && indexNameIn(parsed.node);
    if (!index) return true;
    const before = this.#before.get(session);
    if (!before || !index.name) return false;
    const cleared = await this.#with(async (own) => {
      const left = (await find(own, index)).filter(({ oid }) => !before.has(oid));
      const [only] = left;
      if (left.length > 1) return false;
      // An index has the schema of its table.
      if (only)
        await own.query(`DROP INDEX CONCURRENTLY ${identifier(only.schema)}.${identifier(only.name)}`);
      return true;
    });
    return cleared ?? false;
  }

  async #with<T>(use: (own: Session) => Promise<T>): Promise<T | undefined> {
    let own: Session | undefined;
    try {
      own = await this.#connect();
      return await use(own);
    } catch {
      // The statement is not retried, and the command gets its error.
      return undefined;
    } finally {
      await own?.close();
    }
  }
}

function find(own: Session, { table, schema, name }: IndexName): Promise<Row[]> {
  return own.query<Row>(INVALID, [table, schema, name]);
}

/** Finds the index of a CREATE INDEX CONCURRENTLY; undefined for other statements. */
function indexNameIn(node: Node): IndexName | undefined {
  const { relation, idxname } = fieldsIf(node, 'IndexStmt') ?? {};
  if (concurrentFailure(node) !== 'an invalid index' || relation?.relname === undefined) return undefined;
  return { table: relation.relname, schema: relation.schemaname ?? null, name: idxname ?? '' };
}
