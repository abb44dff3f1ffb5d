import { messageOf, sqlstateOf } from '../../errors.ts';
import { insertsName, replicationName } from '../../ownership/owned-replication.ts';
import type { RunId } from '../../ownership/run-id.ts';
import type { Audit } from '../../postgres/connection/audit.ts';
import type { ConnectionSettings } from '../../postgres/connection/connection-settings.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { identifier, literal } from '../../postgres/sql/quote.ts';

/** A way by which a server connects to itself, as the value of CONNECTION in a subscription. It may contain a password. */
export type OwnConnection = string & { readonly brand: 'OwnConnection' };

/** The folders of sockets are shown to superusers and members of pg_read_all_settings only. */
const ADDRESSES = `
SELECT host(inet_server_addr()) AS address, current_setting('port') AS port,
       (SELECT split_part(setting, ',', 1) FROM pg_settings WHERE name = 'unix_socket_directories') AS folder`;

/** Without it the statement of a subscription, and its password, would be in the server's log. */
const UNLOGGED = ["SET LOCAL log_statement = 'none'", "SET LOCAL log_min_error_statement = 'panic'"];

/**
 * Finds out how the server reaches its own database: CREATE SUBSCRIPTION logs in there. Each way is tried in a transaction that is
 * rolled back.
 * @param session in the target, to which the subscription will connect.
 * @returns the first way that works, without a password if that is possible; the last failure if none does.
 */
export async function findOwnConnection(
  session: Session,
  { settings, run, superuser }: { settings: ConnectionSettings; run: RunId; superuser: boolean },
): Promise<OwnConnection | { readonly failure: string }> {
  const [row] = await session.query<{ address: string | null; port: string; folder: string | null }>(
    ADDRESSES,
  );
  const given = settings.hosts[0];
  const port = row?.port ?? String(given?.port ?? 5432);
  const hosts = [row?.folder?.trim(), row?.address, '127.0.0.1', given?.host].filter(
    (host): host is string => host !== undefined && host !== null && host !== '',
  );
  const passwords = [...(superuser ? [undefined] : []), settings.password];
  let failure = 'the role has no password to log in with';
  for (const password of new Set(passwords)) {
    if (password === undefined && !superuser) continue;
    for (const host of new Set(hosts)) {
      const way = connectionTo({ ...settings, host, port, password });
      const failed = await triedWay(session, way, { run, superuser });
      if (failed === undefined) return way;
      failure = failed;
    }
  }
  return { failure };
}

function connectionTo({
  host,
  port,
  user,
  database,
  password,
}: {
  readonly host: string;
  readonly port: string;
  readonly user: string;
  readonly database: string;
  readonly password: string | undefined;
}): OwnConnection {
  const parts = { host, port, user, dbname: database, password };
  return Object.entries(parts)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => `${key}='${String(value).replaceAll(/[\\']/g, String.raw`\$&`)}'`)
    .join(' ') as OwnConnection;
}

/** @returns why the way does not work. */
async function triedWay(
  session: Session,
  way: OwnConnection,
  { run, superuser }: { run: RunId; superuser: boolean },
): Promise<string | undefined> {
  const name = identifier(replicationName(run));
  await session.query('BEGIN');
  try {
    if (superuser) for (const statement of UNLOGGED) await session.query(statement);
    await session.query(
      `CREATE SUBSCRIPTION ${name} CONNECTION ${literal(way)} PUBLICATION ${name}
         WITH (create_slot = false, enabled = false, copy_data = false)`,
    );
    return undefined;
  } catch (error) {
    if (sqlstateOf(error) === undefined) throw error;
    return messageOf(error);
  } finally {
    await session.query('ROLLBACK');
  }
}

/** Creates a subscription by such a way, to the publications of the same name. @param options as in WITH ( ). */
export async function createSubscription(
  session: Session,
  {
    name,
    way,
    options,
    superuser,
  }: { name: string; way: OwnConnection; options: string; superuser: boolean },
): Promise<void> {
  const publications = `${identifier(name)}, ${identifier(insertsName(name))}`;
  await session.query('BEGIN');
  try {
    if (superuser) for (const statement of UNLOGGED) await session.query(statement);
    await session.query(
      `CREATE SUBSCRIPTION ${identifier(name)} CONNECTION ${literal(way)} PUBLICATION ${publications} WITH (${options})`,
    );
    await session.query('COMMIT');
  } catch (error) {
    await session.query('ROLLBACK').catch(() => {});
    throw error;
  }
}

/** Records statements without the login of a subscription. */
export function withoutLogin(audit: Audit): Audit {
  return (entry) =>
    audit({
      ...entry,
      sql: entry.sql.replace(/(CREATE SUBSCRIPTION .* CONNECTION) .* (PUBLICATION)/s, "$1 '…' $2"),
    });
}
