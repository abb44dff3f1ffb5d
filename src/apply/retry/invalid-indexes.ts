import type { Session } from '../../postgres/connection/session.ts';
import { concurrentFailure, fieldsIf } from '../../postgres/sql/classify-statement.ts';
import { identifier } from '../../postgres/sql/quote.ts';
import type { Node } from '../../postgres/sql/tree.ts';
import type { Intent } from '../../proxy/observed.ts';

interface Made {
  readonly name: string;
  readonly schema: string | null;
  readonly table: string;
}

interface Row {
  oid: number;
  schema: string;
  name: string;
}

// One that somebody builds at this moment is not valid either.
const INVALID = `
SELECT i.indexrelid::int8::float8 AS oid, n.nspname::text AS schema, c.relname::text AS name
  FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
  JOIN pg_namespace n ON n.oid = t.relnamespace
 WHERE NOT i.indisvalid AND t.relname = $1 AND ($2::text IS NULL OR n.nspname = $2)
   AND c.relname = $3
   AND NOT EXISTS (SELECT FROM pg_stat_progress_create_index p WHERE p.index_relid = i.indexrelid)`;

/**
 * CREATE INDEX CONCURRENTLY leaves an invalid index where it fails, which would be in the way of the next attempt. Of those
 * of its name on its table that were not there before it, exactly one may be it; that one is dropped. One without a name
 * in the statement could be somebody else's, and is left alone: then nothing is sent again.
 */
export class InvalidIndexes {
  readonly #connect: () => Promise<Session>;
  /** By session, of the statement that runs there. */
  readonly #before = new Map<number, ReadonlySet<number>>();

  constructor(connect: () => Promise<Session>) {
    this.#connect = connect;
  }

  /** To be waited for before the statement is sent. */
  async remember({ session, parsed }: Intent): Promise<void> {
    this.#before.delete(session);
    const made = parsed && madeBy(parsed.node);
    if (!made?.name) return;
    const rows = await this.#with((own) => find(own, made));
    if (rows) this.#before.set(session, new Set(rows.map(({ oid }) => oid)));
  }

  /** @returns whether the statement can be sent again. Never rejects. */
  async clear({ session, parsed }: Intent): Promise<boolean> {
    const made = parsed && madeBy(parsed.node);
    if (!made) return true;
    const before = this.#before.get(session);
    if (!before || !made.name) return false;
    const cleared = await this.#with(async (own) => {
      const left = (await find(own, made)).filter(({ oid }) => !before.has(oid));
      const [only] = left;
      if (left.length > 1) return false;
      // The table's schema is the index's.
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
      // Then it is not sent again, and the command hears of the failure.
      return undefined;
    } finally {
      await own?.close();
    }
  }
}

function find(own: Session, { table, schema, name }: Made): Promise<Row[]> {
  return own.query<Row>(INVALID, [table, schema, name]);
}

/** undefined for all but CREATE INDEX CONCURRENTLY. */
function madeBy(node: Node): Made | undefined {
  const { relation, idxname } = fieldsIf(node, 'IndexStmt') ?? {};
  if (concurrentFailure(node) !== 'an invalid index' || relation?.relname === undefined) return undefined;
  return { table: relation.relname, schema: relation.schemaname ?? null, name: idxname ?? '' };
}
