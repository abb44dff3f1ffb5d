// A migration command for tests: runs its first argument as SQL, where DATABASE_URL leads, or where the URL in the file
// that is its second argument leads: a way to the target that nobody rewrites.
import { readFileSync } from 'node:fs';
import pg from 'pg';

const [sql, file] = process.argv.slice(2);
const { hostname, port, username, password, pathname } = new URL(
  file ? readFileSync(file, 'utf8').trim() : process.env.DATABASE_URL,
);
const client = new pg.Client({
  host: hostname,
  port: Number(port),
  user: decodeURIComponent(username),
  password: decodeURIComponent(password),
  database: decodeURIComponent(pathname.slice(1)),
});
await client.connect();
try {
  const result = await client.query(sql);
  const rows = [result].flat().at(-1).rows;
  if (rows.length > 0) console.log(JSON.stringify(rows));
} catch (error) {
  console.error(error.message);
  process.exitCode = 7;
} finally {
  await client.end();
}
