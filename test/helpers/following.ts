import type { Server } from '../../src/local-server/embedded.ts';
import { openSession } from '../../src/postgres/connection/connect.ts';
import { parseSettings } from '../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../src/postgres/connection/environment.ts';
import type { Session } from '../../src/postgres/connection/session.ts';
import { waitUntil, withSession } from '../../src/postgres/session-helpers.ts';
import { identifier, literal } from '../../src/postgres/sql/quote.ts';
import type { OnlinePlan } from '../../src/swap/online/online-plan.ts';
import { withClient } from './client.ts';

async function reached(check: () => Promise<boolean>): Promise<void> {
  if (await waitUntil(check, { everyMs: 10, timeoutMs: 20_000 })) return;
  throw new Error('it was not reached: see the log of the server');
}

export function urlOf(server: Server, database: string): string {
  const url = new URL(server.url);
  url.pathname = `/${database}`;
  return url.href;
}

export function withSessionIn<T>(
  server: Server,
  database: string,
  use: (session: Session) => Promise<T>,
): Promise<T> {
  const settings = parseSettings(urlOf(server, database), readEnvironment({}, '/'));
  return withSession(openSession(settings, { purpose: 'test' }), use);
}

/** Runs statements, each in a transaction of its own. */
export function runIn(server: Server, database: string, sql: string | readonly string[]): Promise<void> {
  return withClient(urlOf(server, database), async (client) => {
    for (const statement of [sql].flat()) await client.query(statement);
  });
}

/** Begins to keep the target's changes for the clone: from now on the target may be written. */
export async function publish(server: Server, target: string, plan: OnlinePlan): Promise<void> {
  const ordinary = plan.tables.filter(({ insertsOnly }) => !insertsOnly);
  const inserts = plan.tables.filter(({ insertsOnly }) => insertsOnly);
  const listed = (tables: OnlinePlan['tables']) =>
    tables
      .map(({ inTarget, columns, listsColumns }) => {
        const names = columns.map((column) => identifier(column.inTarget)).join(', ');
        return `TABLE ONLY ${inTarget}${listsColumns ? ` (${names})` : ''}`;
      })
      .join(', ');
  const forTables = (tables: OnlinePlan['tables']) =>
    tables.length === 0
      ? ''
      : ` FOR ${listed(tables).replaceAll(', TABLE ONLY', server.version < 15 ? ', ONLY' : ', TABLE ONLY')}`;
  await runIn(server, target, [
    `CREATE PUBLICATION ${target}${forTables(ordinary)}`,
    `CREATE PUBLICATION ${target}_inserts${forTables(inserts)} WITH (publish = 'insert, truncate')`,
    `SELECT pg_create_logical_replication_slot('${target}', 'pgoutput')`,
  ]);
}

/** The clone follows the published target until it has all of its changes, then no longer. */
export async function follow(server: Server, target: string, clone: string, plan: OnlinePlan): Promise<void> {
  await runIn(server, clone, plan.before);
  const { port, host, user, password } = server;
  const connection = `host=${host} port=${port} user=${user} password=${password} dbname=${target}`;
  await runIn(
    server,
    clone,
    `CREATE SUBSCRIPTION ${clone} CONNECTION ${literal(connection)} PUBLICATION ${target}, ${target}_inserts
       WITH (create_slot = false, slot_name = '${target}', copy_data = false, synchronous_commit = off)`,
  );
}

export async function caughtUp(server: Server, clone: string): Promise<void> {
  await withClient(urlOf(server, clone), async (client) => {
    await client.query("SELECT pg_logical_emit_message(true, 'safemigrate', '')");
    const { rows } = await client.query<{ lsn: string }>('SELECT pg_current_wal_insert_lsn() AS lsn');
    await reached(async () => {
      const found = await client.query<{ done: boolean }>(
        'SELECT latest_end_lsn >= $1 AS done FROM pg_stat_subscription WHERE subname = $2',
        [rows[0]?.lsn, clone],
      );
      return found.rows[0]?.done === true;
    });
  });
}

export async function detach(server: Server, target: string, clone: string, plan: OnlinePlan): Promise<void> {
  const end = `SELECT count(pg_terminate_backend(active_pid)) FROM pg_replication_slots WHERE slot_name = '${target}' AND active`;
  await runIn(server, clone, [
    `ALTER SUBSCRIPTION ${clone} DISABLE`,
    `ALTER SUBSCRIPTION ${clone} SET (slot_name = NONE)`,
    `DROP SUBSCRIPTION ${clone}`,
  ]);
  await reached(async () => {
    await runIn(server, target, end);
    return withClient(urlOf(server, target), async (client) => {
      const { rows } = await client.query(
        'SELECT FROM pg_replication_slots WHERE slot_name = $1 AND active',
        [target],
      );
      return rows.length === 0;
    });
  });
  await runIn(server, target, [
    `SELECT pg_drop_replication_slot('${target}')`,
    `DROP PUBLICATION ${target}`,
    `DROP PUBLICATION ${target}_inserts`,
  ]);
  await runIn(server, clone, plan.after);
}

// Everything of relations but their OIDs and files, with the rows in the order of their text.
const DESCRIBED = `
SELECT format('%I.%I', n.nspname, c.relname) AS name, c.relkind AS kind,
  array(SELECT concat_ws(' ', a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity, a.attgenerated,
      pg_get_expr(d.adbin, d.adrelid))
    FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum) AS columns,
  array(SELECT concat_ws(' ', t.tgname, t.tgenabled) FROM pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal ORDER BY 1) AS triggers,
  array(SELECT pg_get_constraintdef(k.oid) FROM pg_constraint k WHERE k.conrelid = c.oid ORDER BY 1) AS constraints
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname !~ '^pg_|information_schema' AND c.relkind IN ('r', 'p', 'v', 'm', 'S') ORDER BY 1`;

/** All relations of a database with their rows, those of sequences aside. */
export function contentOf(server: Server, database: string): Promise<unknown> {
  return withClient(urlOf(server, database), async (client) => {
    const { rows } = await client.query<{ name: string; kind: string }>(DESCRIBED);
    const described = [];
    for (const row of rows) {
      const content = ['S', 'p'].includes(row.kind)
        ? []
        : (await client.query<{ row: string }>(`SELECT t::text AS row FROM ONLY ${row.name} t ORDER BY 1`))
            .rows;
      described.push({ ...row, rows: content.map((each) => each.row) });
    }
    return described;
  });
}
