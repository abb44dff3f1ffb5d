// A load for tests: reads the table `waited` again and again, and writes down how long it waited, whenever that was long: for a lock, not for a processor.
import { writeFileSync } from 'node:fs';
import pg from 'pg';

const LONG_MS = 300;
const client = new pg.Client(process.env.DATABASE_URL);
client.on('error', () => process.exit());
await client.connect();
const waits = [];
for (;;) {
  const startedAt = performance.now();
  await client.query('SELECT count(*) FROM waited');
  const ms = performance.now() - startedAt;
  if (ms > LONG_MS) {
    waits.push(ms);
    writeFileSync('waits.json', JSON.stringify(waits));
  }
  await new Promise((resolve) => setTimeout(resolve, 5));
}
