import pg from 'pg';
import { MIGRATIONS } from './shop.ts';

/**
 * A migration tool in miniature, so that the demo needs none installed: it reads DATABASE_URL, keeps its history in
 * schema_migrations, and knows nothing of safemigrate. `--to NAME` ends with that migration.
 */
const [, last = MIGRATIONS.at(-1)?.name] = process.argv.slice(2);
const wanted = MIGRATIONS.slice(0, MIGRATIONS.findIndex(({ name }) => name === last) + 1);
const client = new pg.Client({ connectionString: process.env.DATABASE_URL });
await client.connect();
try {
  const { rows } = await client.query<{ name: string }>('SELECT name FROM schema_migrations');
  const applied = new Set(rows.map(({ name }) => name));
  for (const { name, sql } of wanted.filter((migration) => !applied.has(migration.name))) {
    await client.query('BEGIN');
    await client.query(sql);
    await client.query('INSERT INTO schema_migrations (name) VALUES ($1)', [name]);
    await client.query('COMMIT');
    process.stdout.write(`applied ${name}\n`);
  }
} finally {
  await client.end();
}
