import { readdirSync, readFileSync } from 'node:fs';
import pg from 'pg';

/**
 * A migration tool in miniature, so that the demo needs none installed: it reads DATABASE_URL and the files in migrations/, keeps its
 * history in schema_migrations, and knows nothing of safemigrate. `--to NAME` ends with that migration.
 */
async function migrate(): Promise<void> {
  const files = readdirSync('migrations').sort();
  const [, last = ''] = process.argv.slice(2);
  const end = files.indexOf(`${last}.sql`) + 1;
  const client = new pg.Client({ connectionString: process.env.DATABASE_URL });
  await client.connect();
  try {
    const { rows } = await client.query<{ name: string }>('SELECT name FROM schema_migrations');
    const applied = new Set(rows.map(({ name }) => name));
    for (const file of end === 0 ? files : files.slice(0, end)) {
      const name = file.replace(/\.sql$/, '');
      if (applied.has(name)) continue;
      await client.query('BEGIN');
      await client.query(readFileSync(`migrations/${file}`, 'utf8'));
      await client.query('INSERT INTO schema_migrations (name) VALUES ($1)', [name]);
      await client.query('COMMIT');
      process.stdout.write(`applied ${name}\n`);
    }
  } finally {
    await client.end();
  }
}

void migrate();
