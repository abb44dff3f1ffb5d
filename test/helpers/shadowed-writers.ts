import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import { withClient } from './client.ts';

/** Tables of the writers, with foreign keys, sequences, and an identity column. */
export const SHADOWED_TABLES = `
CREATE TABLE orders (id serial PRIMARY KEY, client int NOT NULL, note text NOT NULL, amount int NOT NULL);
CREATE TABLE lines (id serial PRIMARY KEY, order_id int NOT NULL REFERENCES orders, item text NOT NULL);
CREATE TABLE events (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, client int NOT NULL, what text NOT NULL);
CREATE TABLE markers (marker text PRIMARY KEY)`;

interface Order {
  note: string;
  amount: number;
  lines: Map<number, string>;
}

/** Clients that write transactions of several statements, and remember what each acknowledged one has left. */
export interface ShadowedWriters {
  /** Transactions that were acknowledged, or turned out to be committed. */
  readonly committed: () => number;
  /** What clients were told instead, by message. */
  readonly errors: string[];
  /** Takes the longest time of any client's transaction, with all tries, in milliseconds: of those that ended since it was last taken. */
  takeLongestGapMs(): number;
  stop(): Promise<void>;
  /** Compares every row with what it must be. @returns how many, and those that are wrong; both are empty sets of wrongs if all is well. */
  compare(url: string): Promise<{ rows: number; wrong: string[] }>;
}

interface WriterState {
  readonly orders: Map<number, Order>;
  readonly events: Map<string, string>;
  committed: number;
  longestGapMs: number;
}

/** A client whose connection is refused tries again after this time. */
const RETRY_MS = 20;

/** @param pauseMs between two transactions of a client. */
export function startShadowedWriters(url: string, clients: number, pauseMs = 0): ShadowedWriters {
  let stopping = false;
  const errors: string[] = [];
  const states = Array.from({ length: clients }, (): WriterState => {
    return { orders: new Map(), events: new Map(), committed: 0, longestGapMs: 0 };
  });
  const ended = Promise.all(
    states.map((state, index) => writeOn(url, { index, pauseMs, state }, errors, () => stopping)),
  );
  return {
    errors,
    committed: () => states.reduce((sum, { committed }) => sum + committed, 0),
    takeLongestGapMs() {
      const longest = Math.max(...states.map(({ longestGapMs }) => longestGapMs));
      for (const state of states) state.longestGapMs = 0;
      return longest;
    },
    async stop() {
      stopping = true;
      await ended;
    },
    compare: (place) => compareWith(place, states),
  };
}

async function writeOn(
  url: string,
  { index, pauseMs, state }: { index: number; pauseMs: number; state: WriterState },
  errors: string[],
  stopping: () => boolean,
): Promise<void> {
  let client: Client | undefined;
  let last = performance.now();
  for (let turn = 0; !stopping(); turn++) {
    const marker = `${index}-${turn}`;
    const change: (() => void)[] = [];
    try {
      client ??= await connect(url);
      await transaction(client, { index, turn, marker, state }, change);
    } catch (error) {
      errors.push(String((error as Error).message));
      await client?.end().catch(() => {});
      client = undefined;
      if (!(await wasCommitted(url, marker))) continue;
    }
    for (const apply of change) apply();
    state.committed++;
    state.longestGapMs = Math.max(state.longestGapMs, performance.now() - last);
    if (pauseMs > 0) await delay(pauseMs);
    last = performance.now();
  }
  await client?.end().catch(() => {});
}

async function connect(url: string): Promise<Client> {
  for (;;) {
    const client = new Client({ connectionString: url });
    client.on('error', () => {});
    try {
      await client.connect();
      return client;
    } catch {
      await client.end().catch(() => {});
      await delay(RETRY_MS);
    }
  }
}

async function transaction(
  client: Client,
  { index, turn, marker, state }: { index: number; turn: number; marker: string; state: WriterState },
  change: (() => void)[],
): Promise<void> {
  await client.query('BEGIN');
  await client.query('INSERT INTO markers VALUES ($1)', [marker]);
  const order: Order = { note: `n${marker}`, amount: turn % 97, lines: new Map() };
  const made = await client.query<{ id: number }>(
    'INSERT INTO orders (client, note, amount) VALUES ($1, $2, $3) RETURNING id',
    [index, order.note, order.amount],
  );
  const id = Number(made.rows[0]?.id);
  for (const item of ['pen', `it's "${turn}"`]) {
    const line = await client.query<{ id: number }>(
      'INSERT INTO lines (order_id, item) VALUES ($1, $2) RETURNING id',
      [id, item],
    );
    order.lines.set(Number(line.rows[0]?.id), item);
  }
  change.push(() => state.orders.set(id, order));
  await client.query('INSERT INTO events (client, what) VALUES ($1, $2)', [index, marker]);
  change.push(() => state.events.set(marker, marker));
  const [oldest] = state.orders.keys();
  const newest = [...state.orders.keys()].at(-1);
  if (newest !== undefined) {
    await client.query('UPDATE orders SET note = $2, amount = amount + 1 WHERE id = $1', [
      newest,
      `u${marker}`,
    ]);
    const known = state.orders.get(newest);
    change.push(() => {
      if (known) Object.assign(known, { note: `u${marker}`, amount: known.amount + 1 });
    });
  }
  if (oldest !== undefined && oldest !== newest && turn % 3 === 0) {
    await client.query('DELETE FROM lines WHERE order_id = $1', [oldest]);
    await client.query('DELETE FROM orders WHERE id = $1', [oldest]);
    change.push(() => state.orders.delete(oldest));
  }
  await client.query('COMMIT');
}

/** A COMMIT whose answer was lost. */
async function wasCommitted(url: string, marker: string): Promise<boolean> {
  for (;;) {
    const client = await connect(url);
    try {
      const { rows } = await client.query('SELECT FROM markers WHERE marker = $1', [marker]);
      return rows.length > 0;
    } catch {
      await delay(RETRY_MS);
    } finally {
      await client.end().catch(() => {});
    }
  }
}

async function compareWith(
  url: string,
  states: readonly WriterState[],
): Promise<{ rows: number; wrong: string[] }> {
  const expected = new Set<string>();
  for (const [client, { orders, events }] of states.entries()) {
    for (const [id, { note, amount, lines }] of orders) {
      expected.add(`order ${id} ${client} ${note} ${amount}`);
      for (const [line, item] of lines) expected.add(`line ${line} ${id} ${item}`);
    }
    for (const what of events.values()) expected.add(`event ${client} ${what}`);
  }
  const found = await withClient(url, async (client) => {
    const { rows } = await client.query<{ row: string }>(
      `SELECT concat_ws(' ', 'order', id, client, note, amount) AS row FROM orders
       UNION ALL SELECT concat_ws(' ', 'line', id, order_id, item) FROM lines
       UNION ALL SELECT concat_ws(' ', 'event', client, what) FROM events`,
    );
    return rows.map(({ row }) => row);
  });
  const unique = new Set(found);
  const wrong = [
    ...[...expected].filter((row) => !unique.has(row)).map((row) => `missing: ${row}`),
    ...[...unique].filter((row) => !expected.has(row)).map((row) => `extra: ${row}`),
    ...(unique.size === found.length ? [] : [`doubled: ${found.length - unique.size}`]),
  ];
  return { rows: found.length, wrong };
}
