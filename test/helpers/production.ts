import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import path from 'node:path';
import type { Client } from 'pg';
import type { Server } from '../../src/local-server/embedded.ts';
import { identifier } from '../../src/postgres/sql/quote.ts';
import { withClient } from './client.ts';
import { withDatabase } from './target-state.ts';

/**
 * Everything of a server that a rehearsal must not change, as an outsider reads it: every row and definition of its
 * databases, what they share, settings, slots, files, shared memory. Two of these are compared by differences().
 */
export type ProductionState = ReadonlyMap<string, string>;

export async function readProduction({
  server,
  url,
  files,
}: {
  server: Server;
  /** Of a superuser. */
  url: string;
  files: string;
}): Promise<ProductionState> {
  const state = new Map<string, string>();
  await withClient(url, async (client) => {
    for (const [what, sql] of SHARED) await collect(client, what, sql, state);
    const { rows } = await client.query<{ name: string }>(
      'SELECT datname AS name FROM pg_database WHERE datallowconn ORDER BY 1',
    );
    for (const { name } of rows)
      await withClient(withDatabase(url, name), (inside) => readDatabase(inside, name, state));
  });
  readFiles(files, 'file', state);
  readDataFolder(path.join(server.folder, 'data'), state);
  readMemory(server, state);
  return state;
}

/** What is in one and not, or otherwise, in the other. */
export function differences(before: ProductionState, after: ProductionState): string[] {
  const keys = new Set([...before.keys(), ...after.keys()]);
  return [...keys]
    .filter((key) => before.get(key) !== after.get(key))
    .map((key) => {
      const [from, to] = [before.get(key), after.get(key)];
      if (from === undefined) return `+ ${key}`;
      return to === undefined ? `- ${key}` : `~ ${key}: ${brief(from)} → ${brief(to)}`;
    });
}

const brief = (text: string) => (text.length > 60 ? `${text.slice(0, 60)}…` : text);

/** Each returns `key` and `value`; a missing catalogue is one of another version. */
const SHARED: readonly [what: string, sql: string][] = [
  ['role', "SELECT rolname AS key, to_jsonb(r)::text AS value FROM pg_authid r WHERE rolname !~ '^pg_'"],
  [
    'member',
    `SELECT roleid::regrole || ' ' || member::regrole AS key, (to_jsonb(m) - 'oid')::text AS value FROM pg_auth_members m`,
  ],
  [
    'database',
    `SELECT datname AS key, (to_jsonb(d) - '{datfrozenxid,datminmxid,dathasloginevt}'::text[])::text AS value FROM pg_database d`,
  ],
  [
    'setting of',
    `SELECT coalesce(d.datname, '') || ' ' || setrole::regrole AS key, setconfig::text AS value
       FROM pg_db_role_setting s LEFT JOIN pg_database d ON d.oid = s.setdatabase`,
  ],
  [
    'shared comment',
    "SELECT classoid::regclass || ' ' || objoid AS key, description AS value FROM pg_shdescription",
  ],
  ['tablespace', 'SELECT spcname AS key, to_jsonb(t)::text AS value FROM pg_tablespace t'],
  ['parameter', 'SELECT parname AS key, paracl::text AS value FROM pg_parameter_acl'],
  ['origin', 'SELECT roname AS key, roident::text AS value FROM pg_replication_origin'],
  ['position of', 'SELECT external_id AS key, remote_lsn::text AS value FROM pg_replication_origin_status'],
  ['subscription', 'SELECT subname AS key, subenabled::text AS value FROM pg_subscription'],
  [
    'slot',
    `SELECT slot_name AS key, concat_ws(' ', slot_type, database, restart_lsn, confirmed_flush_lsn) AS value FROM pg_replication_slots`,
  ],
  ['prepared transaction', 'SELECT gid AS key, database AS value FROM pg_prepared_xacts'],
  [
    'dependencies of',
    `SELECT d.datname AS key, md5(string_agg(to_jsonb(s)::text, ' ' ORDER BY to_jsonb(s)::text)) AS value
       FROM pg_shdepend s JOIN pg_database d ON d.oid = s.dbid GROUP BY 1`,
  ],
  [
    'line of',
    `SELECT coalesce(sourcefile, '') || ' ' || seqno AS key, name || ' = ' || coalesce(setting, '') AS value FROM pg_file_settings`,
  ],
  ['configuration', "SELECT 'loaded' AS key, pg_conf_load_time()::text AS value"],
  ['server', "SELECT 'started' AS key, pg_postmaster_start_time()::text AS value"],
  ['statistics', "SELECT 'bgwriter' AS key, stats_reset::text AS value FROM pg_stat_bgwriter"],
  ['statistics', "SELECT 'archiver' AS key, stats_reset::text AS value FROM pg_stat_archiver"],
  [
    'statistics',
    `SELECT 'shared catalogues' AS key, 'counted' AS value WHERE pg_stat_get_tuples_inserted('pg_authid'::regclass) > 0`,
  ],
  [
    'file of',
    'SELECT relname AS key, pg_relation_filenode(oid)::text AS value FROM pg_class WHERE relisshared',
  ],
  [
    'process',
    `SELECT backend_type AS key, count(*)::text AS value FROM pg_stat_activity
      WHERE backend_type NOT IN ('client backend', 'walsender', 'parallel worker', 'autovacuum worker') GROUP BY 1`,
  ],
];

const WITHIN: readonly [what: string, sql: string][] = [
  [
    'relation',
    `SELECT oid::regclass::text AS key, concat_ws(' ', relkind, relowner::regrole, relacl, reloptions, relfilenode, relrowsecurity) AS value
       FROM pg_class WHERE oid >= 16384 AND relnamespace <> 'pg_toast'::regnamespace`,
  ],
  [
    'column',
    `SELECT attrelid::regclass || '.' || attname AS key, concat_ws(' ', atttypid::regtype, attnotnull, attacl) AS value
       FROM pg_attribute WHERE attrelid >= 16384 AND attnum > 0 AND attrelid::regclass::text !~ '^pg_toast'`,
  ],
  ['function', 'SELECT oid::regprocedure::text AS key, prosrc AS value FROM pg_proc WHERE oid >= 16384'],
  ['trigger', 'SELECT tgname AS key, tgenabled::text AS value FROM pg_trigger'],
  ['event trigger', 'SELECT evtname AS key, evtenabled::text AS value FROM pg_event_trigger'],
  ['extension', 'SELECT extname AS key, extversion AS value FROM pg_extension'],
  ['server', 'SELECT srvname AS key, srvoptions::text AS value FROM pg_foreign_server'],
  ['policy', 'SELECT polname AS key, polrelid::text AS value FROM pg_policy'],
  ['large object', 'SELECT oid::text AS key, lomowner::text AS value FROM pg_largeobject_metadata'],
  ['sequence', 'SELECT sequencename AS key, last_value::text AS value FROM pg_sequences'],
];

const UNDEFINED_TABLE = '42P01';

async function collect(client: Client, what: string, sql: string, state: Map<string, string>): Promise<void> {
  try {
    const { rows } = await client.query<{ key: string; value: string | null }>(sql);
    for (const { key, value } of rows) state.set(`${what} ${key}`, value ?? '');
  } catch (error) {
    if ((error as { code?: string }).code !== UNDEFINED_TABLE) throw error;
  }
}

async function readDatabase(client: Client, name: string, state: Map<string, string>): Promise<void> {
  for (const [what, sql] of WITHIN) await collect(client, `${name}: ${what}`, sql, state);
  const { rows } = await client.query<{ schema: string; table: string }>(
    `SELECT schemaname AS schema, tablename AS table FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`,
  );
  for (const { schema, table } of rows) {
    const relation = `${identifier(schema)}.${identifier(table)}`;
    await collect(
      client,
      `${name}: rows of`,
      `SELECT '${table}' AS key, count(*) || ' ' || coalesce(md5(string_agg(t::text, ' ' ORDER BY t::text)), '') AS value FROM ${relation} t`,
      state,
    );
  }
}

function readFiles(folder: string, what: string, state: Map<string, string>): void {
  for (const entry of readdirSync(folder, { withFileTypes: true, recursive: true })) {
    const file = path.join(entry.parentPath, entry.name);
    state.set(`${what} ${path.relative(folder, file)}`, entry.isFile() ? digestOfFile(file) : 'folder');
  }
}

/** Its files change all the time; that there are others, and those that a person edits, do not. */
function readDataFolder(data: string, state: Map<string, string>): void {
  for (const name of readdirSync(data))
    state.set(`data folder ${name}`, name.endsWith('.conf') ? digestOfFile(path.join(data, name)) : '');
}

function digestOfFile(file: string): string {
  return createHash('md5').update(readFileSync(file)).digest('hex');
}

export function postmasterOf(server: Server): { pid: number; segment: string } {
  const lines = readFileSync(path.join(server.folder, 'data', 'postmaster.pid'), 'utf8').split('\n');
  return { pid: Number(lines[0]), segment: lines[6]?.trim().split(/\s+/)[1] ?? '' };
}

/** Files in /dev/shm that the postmaster has mapped. */
export function memoryOf(server: Server): string[] {
  const maps = readFileSync(`/proc/${postmasterOf(server).pid}/maps`, 'utf8');
  return [...new Set([...maps.matchAll(/\/dev\/shm\/PostgreSQL\.\d+/g)].map(([file]) => file))];
}

function readMemory(server: Server, state: Map<string, string>): void {
  const { segment } = postmasterOf(server);
  const segments = readFileSync('/proc/sysvipc/shm', 'utf8').split('\n');
  const line = segments.find((each) => each.trim().split(/\s+/)[1] === segment);
  // A segment that is to go loses its key.
  state.set('System V segment', line === undefined ? 'gone' : (line.trim().split(/\s+/)[0] ?? ''));
  const there = new Set(readdirSync('/dev/shm').map((name) => `/dev/shm/${name}`));
  for (const file of memoryOf(server)) state.set(`memory ${file}`, there.has(file) ? 'there' : 'gone');
  state.set('programs of', readlinkSync(`/proc/${postmasterOf(server).pid}/exe`));
}
