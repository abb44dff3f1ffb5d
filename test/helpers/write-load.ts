import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';

/** Clients that insert as fast as they are let, each row with a number of its own, and note what was acknowledged. */
export interface WriteLoad {
  /** Numbers of the rows whose INSERT was answered. */
  readonly acknowledged: Set<number>;
  /** What clients were told instead, by message. */
  readonly errors: string[];
  /** The longest time from one answer to the next that any client has had so far, in milliseconds, errors included. */
  longestWaitMs(): number;
  stop(): Promise<void>;
}

export const LOAD_TABLE = 'CREATE TABLE written (id int PRIMARY KEY)';

/** A backend that waits for so many seconds after its login: it has passed a door that is then closed. */
const SLOW_START = '-c post_auth_delay=1';

/**
 * @param url of the target, with a table of LOAD_TABLE.
 * @param first number that no row has yet. Each client takes every so-manieth from there on.
 * @param newcomers so many of the clients connect anew for each row, and their backends are slow to start.
 */
export function startWriteLoad(url: string, clients: number, first = 0, newcomers = 0): WriteLoad {
  const acknowledged = new Set<number>();
  const errors: string[] = [];
  let stopping = false;
  let longestWaitMs = 0;
  const live = async (index: number) => {
    let next = first + index;
    let answeredAt: number | undefined;
    const insert = async (client: Client) => {
      next += clients;
      await client.query('INSERT INTO written VALUES ($1)', [next]);
      acknowledged.add(next);
      const now = performance.now();
      longestWaitMs = Math.max(longestWaitMs, now - (answeredAt ?? now));
      answeredAt = now;
    };
    const isNew = index < newcomers;
    while (!stopping) {
      const client = new Client({ connectionString: url, ...(isNew ? { options: SLOW_START } : {}) });
      client.on('error', () => {});
      try {
        await client.connect();
        await insert(client);
        while (!isNew && !stopping) {
          await delay(2);
          await insert(client);
        }
      } catch (error) {
        errors.push(error instanceof Error ? error.message : String(error));
        await delay(20);
      } finally {
        await client.end().catch(() => {});
      }
    }
  };
  const lives = Array.from({ length: clients }, (_, index) => live(index));
  return {
    acknowledged,
    errors,
    longestWaitMs: () => longestWaitMs,
    async stop() {
      stopping = true;
      await Promise.all(lives);
    },
  };
}

/** Of these numbers, those that no row of the table has. */
export async function missing(url: string, acknowledged: ReadonlySet<number>): Promise<number[]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    const { rows } = await client.query<{ id: number }>('SELECT id FROM written');
    const there = new Set(rows.map(({ id }) => id));
    return [...acknowledged].filter((id) => !there.has(id));
  } finally {
    await client.end();
  }
}
