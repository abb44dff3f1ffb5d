import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import { withClient } from './client.ts';

/** Accounts whose balances always add up to zero, however far the transfers between them have come. */
export interface Transfers {
  /** Ends them. @returns how many were committed, and how many failed. */
  end(): Promise<{ committed: number; failed: number }>;
}

const ACCOUNTS = 2000;
/** Between two transfers of a session: without it they would take all processors. */
const PAUSE_MS = 5;

export async function makeAccounts(url: string): Promise<void> {
  await withClient(url, (client) =>
    client.query(`CREATE TABLE account AS
       SELECT i AS id, 0::bigint AS balance, repeat('x', 200) AS filler FROM generate_series(1, ${ACCOUNTS}) i;
     ALTER TABLE account ADD PRIMARY KEY (id)`),
  );
}

/** Moves money between random accounts over so many sessions. */
export async function startTransfers(url: string, sessions: number): Promise<Transfers> {
  let running = true;
  const count = { committed: 0, failed: 0 };
  const first: Promise<void>[] = [];
  const work = Array.from({ length: sessions }, () => {
    let begun: () => void = () => {};
    first.push(new Promise((resolve) => (begun = resolve)));
    return transfer(url, () => running, count, begun);
  });
  await Promise.all(first);
  return {
    async end() {
      running = false;
      await Promise.all(work);
      return count;
    },
  };
}

async function transfer(
  url: string,
  running: () => boolean,
  count: { committed: number; failed: number },
  begun: () => void,
): Promise<void> {
  const client = new Client(url);
  client.on('error', () => {});
  await client.connect();
  const account = () => 1 + Math.floor(Math.random() * ACCOUNTS);
  while (running()) {
    const amount = 1 + Math.floor(Math.random() * 100);
    // In one order, or two sessions would wait for each other.
    const [one, other] = [account(), account()].sort((a, b) => a - b);
    try {
      await client.query(`BEGIN;
        UPDATE account SET balance = balance - ${amount} WHERE id = ${one};
        UPDATE account SET balance = balance + ${amount} WHERE id = ${other};
        COMMIT`);
      count.committed += 1;
    } catch {
      count.failed += 1;
      // A lost connection refuses at once, and would do so for ever.
      break;
    }
    begun();
    await delay(PAUSE_MS);
  }
  begun();
  await client.end();
}

export const BALANCES = 'SELECT sum(balance)::int AS sum, count(*)::int AS count FROM account';
