// A migration command for tests: runs its first argument as the body of an async function. `connect(name, url)` opens a
// connection where DATABASE_URL leads, or to another database there, or by a URL that nobody rewrote.
import pg from 'pg';

const [body, ...args] = process.argv.slice(2);

function clientOf(database, url = process.env.DATABASE_URL) {
  const { hostname, port, username, password, pathname, searchParams } = new URL(url);
  return new pg.Client({
    host: searchParams.get('host') ?? hostname,
    port: Number(searchParams.get('port') ?? port),
    user: decodeURIComponent(username),
    password: decodeURIComponent(password),
    database: database ?? decodeURIComponent(pathname.slice(1)),
  });
}

async function connect(database, url) {
  const client = clientOf(database, url);
  await client.connect();
  return client;
}

const AsyncFunction = (async () => {}).constructor;
try {
  await new AsyncFunction('connect', 'args', 'pg', body)(connect, args, pg);
} catch (error) {
  console.error(error.message);
  // Connections that are still open would keep it alive.
  process.exit(7);
}
