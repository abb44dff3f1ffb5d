import { setTimeout as delay } from 'node:timers/promises';
import type { Session } from '../../postgres/connection/session.ts';
import { identifier } from '../../postgres/sql/quote.ts';
import type { Follower } from './follower.ts';
import type { OnlinePlan, OnlineTable } from './online-plan.ts';

/** Result of a comparison of the target with the clone that follows it. */
export interface RowsCompared {
  /** Rows of the target that were compared. */
  readonly rows: number;
  /** Rows, or tables without a key, that differ and stay so: for people. At most MOST_DIFFERENCES. */
  readonly differences: readonly string[];
  /** Rows, or tables without a key, that changed at each look, so that they were never read alike. */
  readonly unsettled: number;
}

const CHUNK_ROWS = 2_000;
const MOST_DIFFERENCES = 10;
const ROUNDS = 12;
const PAUSE_MS = 25;

interface Comparing {
  readonly target: Session;
  readonly clone: Session;
  readonly signal: AbortSignal;
  /** Waits until the clone has applied everything that the target has by now. @returns false if it takes too long. */
  readonly isApplied: () => Promise<boolean>;
  /** Gets the number of rows that each chunk adds. */
  readonly onRows: (rows: number) => void;
  /** The word for the clone, which in a rollback is the original. */
  readonly called: Follower['called'];
}

/**
 * Compares all rows of the tables that the clone follows, while both are written: the digests of chunks in the order of the key, then
 * the rows of a chunk that differs, again and again until they agree. A row differs if the target did not change it while the clone
 * applied everything before. Changed types are compared by that of the migrated database. Each query is its own transaction.
 */
export async function compareRows(
  target: Session,
  clone: Session,
  { tables }: Pick<OnlinePlan, 'tables'>,
  {
    signal,
    isApplied,
    onRows = () => {},
    called = 'clone',
  }: Pick<Comparing, 'signal' | 'isApplied'> & Partial<Comparing>,
): Promise<RowsCompared> {
  const comparing = { target, clone, signal, isApplied, onRows, called };
  const differences: string[] = [];
  let [rows, unsettled] = [0, 0];
  for (const table of tables) {
    const queries = await queriesFor([target, clone], table);
    const compare = table.key.length === 0 ? compareWhole : compareByKey;
    const found = await compare(comparing, table, queries);
    rows += found.rows;
    unsettled += found.unsettled;
    differences.push(...found.differences);
    if (differences.length >= MOST_DIFFERENCES) break;
  }
  return { rows, differences: differences.slice(0, MOST_DIFFERENCES), unsettled };
}

/** The SQL of one table for one of the databases. The columns have the target's names in both. */
interface Side {
  readonly from: string;
  /** Digest of one row's values. */
  readonly digest: string;
  readonly key: readonly { readonly column: string; readonly type: string }[];
}

interface Queries {
  readonly target: Side;
  readonly clone: Side;
}

const KNOWN = `SELECT t.name FROM unnest($1::text[]) t(name) WHERE to_regtype(t.name) IS NOT NULL`;

async function queriesFor(
  both: readonly [target: Session, clone: Session],
  { inTarget, columns, key }: OnlineTable,
): Promise<Queries> {
  const types = columns.map(({ comparedBy }) => comparedBy);
  let known = new Set(types);
  for (const session of both) {
    const rows = await session.query<{ name: string }>(KNOWN, [[...known]]);
    known = new Set(rows.map(({ name }) => name));
  }
  const side = (inClone: boolean): Side => {
    const values = columns.map(({ inTarget: name, targetType, cloneType, comparedBy }) => {
      if (targetType === cloneType) return identifier(name);
      // A type that only one of them has is compared as text.
      if (!known.has(comparedBy)) return `${identifier(name)}::text`;
      const own = inClone ? cloneType : targetType;
      return own === comparedBy ? identifier(name) : `${identifier(name)}::${comparedBy}`;
    });
    return {
      from: `ONLY ${inTarget}`,
      digest: `md5(ROW(${values.join(', ')})::text)`,
      key: key.map((name) => {
        const column = columns.find((each) => each.inTarget === name);
        return {
          column: identifier(name),
          type: (inClone ? column?.cloneType : column?.targetType) ?? 'text',
        };
      }),
    };
  };
  return { target: side(false), clone: side(true) };
}

type Key = readonly string[];
type Found = RowsCompared;

async function compareByKey(comparing: Comparing, table: OnlineTable, queries: Queries): Promise<Found> {
  const differences: string[] = [];
  let [rows, unsettled] = [0, 0];
  let after: Key | null = null;
  do {
    comparing.signal.throwIfAborted();
    const chunk: Chunk = await readChunk(comparing.target, queries.target, after, null);
    // The last chunk has no end, so that rows beyond it are found as well.
    const end: Key | null = chunk.rows < CHUNK_ROWS ? null : chunk.last;
    const other = await readChunk(comparing.clone, queries.clone, after, end);
    rows += chunk.rows;
    comparing.onRows(chunk.rows);
    if (chunk.digest !== other.digest) {
      const settled = await settle(comparing, queries, { after, end });
      unsettled += settled.unsettled;
      differences.push(...settled.differing.map((row) => `${table.inTarget} ${row}`));
    }
    after = end;
  } while (after !== null && differences.length < MOST_DIFFERENCES);
  return { rows, differences, unsettled };
}

interface Chunk {
  readonly rows: number;
  readonly digest: string | null;
  readonly last: Key | null;
}

interface Range {
  readonly after: Key | null;
  readonly end: Key | null;
}

/** Reads the next rows in the order of the key, up to `end`, or else CHUNK_ROWS. */
async function readChunk(session: Session, side: Side, after: Key | null, end: Key | null): Promise<Chunk> {
  const columns = side.key.map(({ column }) => column).join(', ');
  const [row] = await session.query<Chunk>(
    `SELECT count(*)::int4 AS rows, md5(string_agg(r.digest, '' ORDER BY ${columns})) AS digest,
            jsonb_agg(${keyOf(side)} ORDER BY ${columns}) -> -1 AS last
       FROM (${rangeOf(side, { after, end }, `${columns}, ${side.digest} AS digest`)}
             ORDER BY ${columns} ${end ? '' : `LIMIT ${CHUNK_ROWS}`}) r`,
    [...(after ?? []), ...(end ?? [])],
  );
  return row ?? { rows: 0, digest: null, last: null };
}

const keyOf = ({ key }: Side) =>
  `jsonb_build_array(${key.map(({ column }) => `${column}::text`).join(', ')})`;

function rangeOf({ from, key }: Side, { after, end }: Range, columns: string): string {
  const names = key.map(({ column }) => column).join(', ');
  const values = (first: number) => key.map(({ type }, at) => `$${first + at}::text::${type}`).join(', ');
  const conditions = [
    ...(after ? [`(${names}) > (${values(1)})`] : []),
    ...(end ? [`(${names}) <= (${values((after?.length ?? 0) + 1)})`] : []),
  ];
  const where = conditions.length > 0 ? `WHERE ${conditions.join(' AND ')}` : '';
  return `SELECT ${columns} FROM ${from} ${where}`;
}

type Digests = ReadonlyMap<string, string>;

/** Looks at the rows of a chunk that differs until each agrees, or is known to differ. */
async function settle(
  { target, clone, signal, isApplied, called }: Comparing,
  queries: Queries,
  range: Range,
) {
  const inRange = (session: Session, side: Side) => readDigests(session, side, range);
  let suspects = differing(await inRange(target, queries.target), await inRange(clone, queries.clone));
  const differences = new Map<string, string>();
  for (let round = 0; round < ROUNDS && suspects.length > 0; round++) {
    await delay(PAUSE_MS * round, undefined, { signal });
    const keys = suspects.slice(0, CHUNK_ROWS);
    const before = await readKeys(target, queries.target, keys);
    const applied = await isApplied();
    const there = await readKeys(clone, queries.clone, keys);
    const now = await readKeys(target, queries.target, keys);
    const agreed = new Set<string>();
    for (const key of keys) {
      const [first, other, last] = [before.get(key), there.get(key), now.get(key)];
      if (other === first || other === last) agreed.add(key);
      // In a second round, so that a row that was changed and changed back is not taken for one that stayed.
      else if (first === last && applied && round > 0) differences.set(key, describe(last, other, called));
    }
    suspects = suspects.filter((key) => !agreed.has(key) && !differences.has(key));
    if (differences.size >= MOST_DIFFERENCES) break;
  }
  const names = queries.target.key.map(({ column }) => column).join(', ');
  const shown = [...differences].map(([key, how]) => `(${names}) = (${JSON.parse(key).join(', ')}): ${how}`);
  return { differing: shown, unsettled: suspects.length };
}

function describe(inTarget: string | undefined, inClone: string | undefined, called: string): string {
  if (inClone === undefined) return 'only in the target';
  return inTarget === undefined ? `only in the ${called}` : `other values in the ${called}`;
}

function differing(first: Digests, second: Digests): string[] {
  const keys = new Set([...first.keys(), ...second.keys()]);
  return [...keys].filter((key) => first.get(key) !== second.get(key));
}

async function readDigests(session: Session, side: Side, range: Range): Promise<Digests> {
  const sql = rangeOf(side, range, `${keyOf(side)}::text AS key, ${side.digest} AS digest`);
  return toDigests(session, sql, [...(range.after ?? []), ...(range.end ?? [])]);
}

async function readKeys(session: Session, side: Side, keys: readonly string[]): Promise<Digests> {
  const wanted = side.key.map(({ column, type }, at) => `t.${column} = (k.key ->> ${at})::${type}`);
  const columns = side.key.map(({ column }) => `t.${column}::text`).join(', ');
  const sql = `SELECT jsonb_build_array(${columns})::text AS key, ${side.digest} AS digest
    FROM jsonb_array_elements($1::jsonb) k(key) JOIN ${side.from} t ON ${wanted.join(' AND ')}`;
  return toDigests(session, sql, [`[${keys.join(',')}]`]);
}

async function toDigests(session: Session, sql: string, values: readonly unknown[]): Promise<Digests> {
  const rows = await session.query<{ key: string; digest: string }>(sql, values);
  return new Map(rows.map(({ key, digest }) => [key, digest]));
}

/** Compares a table without a key as a whole: the number of its rows and a sum of their digests. */
async function compareWhole(
  { target, clone, signal, isApplied, called }: Comparing,
  table: OnlineTable,
  queries: Queries,
): Promise<Found> {
  const read = async (session: Session, { from, digest }: Side) => {
    const [row] = await session.query<{ rows: number; sum: string | null }>(
      `SELECT count(*)::float8 AS rows, sum(('x' || left(${digest}, 15))::bit(60)::int8)::text AS sum FROM ${from}`,
    );
    return { rows: row?.rows ?? 0, digest: `${row?.rows} ${row?.sum}` };
  };
  for (let round = 0; round < ROUNDS; round++) {
    await delay(PAUSE_MS * round, undefined, { signal });
    const before = await read(target, queries.target);
    const applied = await isApplied();
    const there = await read(clone, queries.clone);
    const now = await read(target, queries.target);
    if ([before.digest, now.digest].includes(there.digest))
      return { rows: now.rows, differences: [], unsettled: 0 };
    if (before.digest === now.digest && applied && round > 0) {
      const rows = `${now.rows} rows in the target, ${there.rows} in the ${called}`;
      return { rows: now.rows, differences: [`${table.inTarget} (no key): ${rows}`], unsettled: 0 };
    }
  }
  return { rows: 0, differences: [], unsettled: 1 };
}
