// A migration command for tests: each migration in a session of its own, which is named after it; one that fails is given
// up, and the next begins. Its argument is a file with JSON of [{ name, atomic, statements }].
import { readFileSync } from 'node:fs';
import pg from 'pg';

const { hostname, port, username, password, pathname } = new URL(process.env.DATABASE_URL);

for (const { name, atomic, statements } of JSON.parse(readFileSync(process.argv[2]))) {
  const client = new pg.Client({
    host: hostname,
    port: Number(port),
    user: decodeURIComponent(username),
    password: decodeURIComponent(password),
    database: decodeURIComponent(pathname.slice(1)),
  });
  await client.connect();
  await client.query(`SET application_name = '${name}'`);
  try {
    if (atomic) await client.query('BEGIN');
    for (const statement of statements) await client.query(statement);
    if (atomic) await client.query('COMMIT');
  } catch (error) {
    console.error(`${name}: ${error.message}`);
    process.exitCode = 1;
  }
  await client.end();
}
