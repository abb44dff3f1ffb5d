import { Client } from 'pg';

/** A connected client for the time of `use`. Names in the URL are decoded in full, which pg itself does not do. */
export async function withClient<T>(url: string, use: (client: Client) => Promise<T>): Promise<T> {
  const { hostname, port, username, password, pathname } = new URL(url);
  const client = new Client({
    host: hostname,
    port: Number(port),
    user: decodeURIComponent(username),
    password: decodeURIComponent(password),
    database: decodeURIComponent(pathname.slice(1)),
  });
  // A session that the server ends while it is idle would otherwise end the test process; a query still fails.
  client.on('error', () => {});
  await client.connect();
  try {
    return await use(client);
  } finally {
    await client.end().catch(() => {});
  }
}
