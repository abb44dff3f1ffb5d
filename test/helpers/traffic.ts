import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';

/** Clients that send the same transaction again and again until they are stopped; a failure of one is counted. */
export interface RunningTraffic {
  stop(): Promise<{ committed: number; failed: number }>;
}

/** @param statements of one transaction; `$1` is a number from 1 to 20,000. */
export async function startTraffic(
  url: string,
  clients: number,
  statements: readonly string[],
  pauseMs = 15,
): Promise<RunningTraffic> {
  const counts = { committed: 0, failed: 0 };
  let stopped = false;
  const opened = await Promise.all(
    Array.from({ length: clients }, async () => {
      const client = new Client({ connectionString: url });
      await client.connect();
      return client;
    }),
  );
  const working = opened.map(async (client) => {
    while (!stopped) {
      try {
        await client.query('BEGIN');
        for (const sql of statements)
          await client.query(sql, sql.includes('$1') ? [1 + Math.floor(Math.random() * 20_000)] : []);
        await client.query('COMMIT');
        counts.committed++;
      } catch {
        counts.failed++;
        await client.query('ROLLBACK');
      }
      await delay(Math.random() * 2 * pauseMs);
    }
    await client.end();
  });
  return {
    async stop() {
      stopped = true;
      await Promise.all(working);
      return counts;
    },
  };
}
