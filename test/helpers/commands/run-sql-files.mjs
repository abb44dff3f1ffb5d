// A migration command for tests: runs SQL files, each in a session of its own whose search_path is one schema, statement
// by statement, and goes on behind those that fail. Its argument is a JSON list of { schema, file }.
import { readFileSync } from 'node:fs';
import { parse } from 'libpg-query';
import pg from 'pg';

const { hostname, port, username, password, pathname } = new URL(process.env.DATABASE_URL);

for (const { schema, file } of JSON.parse(process.argv[2])) {
  const client = new pg.Client({
    host: hostname,
    port: Number(port),
    user: decodeURIComponent(username),
    password: decodeURIComponent(password),
    database: decodeURIComponent(pathname.slice(1)),
  });
  await client.connect();
  await client.query(`SET search_path = ${schema}`);
  for (const statement of await statementsOf(readFileSync(file)))
    await client.query(statement).catch(() => {});
  await client.end();
}

async function statementsOf(text) {
  // The parser is of PostgreSQL 18: one statement that only 19 has is sent as it is.
  const { stmts } = await parse(text.toString()).catch(() => ({ stmts: [{}] }));
  return stmts.map(({ stmt_location: from = 0, stmt_len: length }) =>
    text.toString('utf8', from, length ? from + length : undefined),
  );
}
