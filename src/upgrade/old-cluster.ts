import { appendFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { type PrivateServer, type StartedCopy, startOnCopy } from '../clone/private-cluster.ts';
import { SafemigrateError } from '../errors.ts';
import { CLONE_PORT } from '../ownership/folder-records.ts';
import { openSession } from '../postgres/connection/connect.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import type { Session } from '../postgres/connection/session.ts';
import { withSession } from '../postgres/session-helpers.ts';
import type { Scope } from '../scope.ts';
import type { PreparedUpgrade } from './prepare-upgrade.ts';
import { type UpgradeSandbox, untilAborted } from './sandboxed-programs.ts';

/** A copy of the cluster that has recovered and was shut down, as pg_upgrade wants it, and the place where it lies. */
export interface OldCluster {
  readonly copy: StartedCopy;
  readonly sandbox: UpgradeSandbox;
  readonly owner: PrivateServer['owner'];
  readonly data: string;
  readonly facts: OldFacts;
  /** Until it was shut down. */
  readonly durationMs: number;
}

export interface OldFacts {
  /** The role that initdb made, which pg_upgrade must log in as. */
  readonly superuser: string;
  readonly checksums: boolean;
  readonly walSegmentBytes: number;
  /** template0's. */
  readonly encoding: string;
  /** `c`, `i` (ICU) or `b` (builtin). */
  readonly provider: string;
  readonly collate: string;
  readonly ctype: string;
  /** Locale of ICU or the builtin provider. */
  readonly locale: string | null;
  readonly databases: readonly {
    readonly name: string;
    readonly open: boolean;
    readonly sizeBytes: number;
  }[];
}

// Columns by name through JSON: each version has others.
const TEMPLATE = `
SELECT to_jsonb(d) || jsonb_build_object('name', pg_encoding_to_char(encoding),
       'checksums', current_setting('data_checksums')::bool,
       'segment', pg_size_bytes(current_setting('wal_segment_size'))) AS facts,
       (SELECT rolname::text FROM pg_roles WHERE oid = 10) AS superuser,
       (SELECT rolcanlogin FROM pg_roles WHERE oid = 10) AS may
  FROM pg_database d WHERE datname = 'template0'`;

// A DROP DATABASE that was cut off leaves one with the limit -2, which refuses all sessions; one of this encoding refuses ours, of UTF-8.
const DATABASES = `
SELECT datname::text AS name, datallowconn AND datconnlimit <> -2 AND pg_encoding_to_char(encoding) <> 'MULE_INTERNAL' AS open, pg_database_size(oid)::text AS bytes
  FROM pg_database ORDER BY 1`;

/**
 * Copies the cluster, lets the copy recover, uses its server, and shuts it down.
 * @param use what to read of the server while it runs.
 * @throws SafemigrateError as startOnCopy() does.
 */
export async function makeOldCluster<T>(
  { context, copy: described }: Pick<PreparedUpgrade, 'context' | 'copy'>,
  scope: Scope,
  use: (server: RunningServer, facts: OldFacts, copy: StartedCopy) => Promise<T>,
): Promise<{ old: OldCluster; read: T }> {
  const started = performance.now();
  const { folder, owner, places } = described;
  const copy = await startOnCopy(context, described, scope);
  const { sandbox, place, server, lease, settings } = copy;
  const running = serverIn(place.socketFolder, copy.original.superuser, context);
  const facts = await lease.during(() => withSession(running.enter('postgres'), readOldFacts));
  const read = await lease.during(() => use(running, facts, copy));
  await lease.during(() => untilAborted(server.stop(), context.signal));
  const data = path.join(folder, 'data');
  await writeFile(path.join(data, 'postgresql.auto.conf'), settingsText(settings.fixed));
  const through = sandbox.through({ folder, socketFolder: place.socketFolder, places });
  const own = { folder, through, user: sandbox.user, signal: context.signal };
  return { old: { copy, sandbox: own, owner, data, facts, durationMs: performance.now() - started }, read };
}

/** The server of a copy. */
export interface RunningServer {
  /** How to enter the database that all can. */
  readonly connect: ConnectionSettings;
  enter(database: string): Promise<Session>;
}

/** A private server, reached by its socket as a superuser. */
export function serverIn(
  socketFolder: string,
  user: string,
  { run, audit, signal }: Pick<PreparedUpgrade['context'], 'run' | 'audit' | 'signal'>,
): RunningServer {
  const hosts = [{ host: socketFolder, port: CLONE_PORT }];
  const connect: ConnectionSettings = {
    hosts,
    user,
    database: 'postgres',
    sslmode: 'disable',
    parameters: {},
  };
  return serverAt(connect, { run, audit, signal });
}

/** A server, entered with these settings. */
export function serverAt(
  connect: ConnectionSettings,
  { run, audit, signal }: Pick<PreparedUpgrade['context'], 'run' | 'audit' | 'signal'>,
): RunningServer {
  const options = { run, audit, signal, purpose: 'upgrade', statementTimeoutMs: 0 };
  return { connect, enter: (database) => openSession(connect, { ...options, database }) };
}

async function readOldFacts(session: Session): Promise<OldFacts> {
  const [row] = await session.query<{ facts: Record<string, unknown>; superuser: string; may: boolean }>(
    TEMPLATE,
  );
  if (!row) throw new SafemigrateError('CLONE', 'The cluster has no template0, and pg_upgrade needs it.');
  const { facts, superuser, may } = row;
  if (!may)
    throw new SafemigrateError('CLONE', `pg_upgrade logs in as ${superuser}, who may not log in.`, {
      hint: `The target was not touched. Give this role LOGIN: ALTER ROLE "${superuser}" LOGIN;`,
    });
  const text = (...keys: string[]) =>
    keys.map((key) => facts[key]).find((value) => typeof value === 'string');
  const databases = await session.query<{ name: string; open: boolean; bytes: string }>(DATABASES);
  return {
    superuser,
    checksums: facts.checksums === true,
    walSegmentBytes: Number(facts.segment),
    encoding: String(text('name')),
    provider: String(text('datlocprovider') ?? 'c'),
    collate: String(text('datcollate')),
    ctype: String(text('datctype')),
    locale:
      text('datlocale', 'daticulocale') === undefined ? null : String(text('datlocale', 'daticulocale')),
    databases: databases.map(({ name, open, bytes }) => ({ name, open, sizeBytes: Number(bytes) })),
  };
}

/** Settings that pg_upgrade gives to each server itself. */
const OF_PG_UPGRADE = new Set(['data_directory', 'port', 'unix_socket_directories']);

/** The settings of a sandboxed server as the text of a file, for servers that pg_upgrade starts. */
export function settingsText(fixed: Readonly<Record<string, string>>): string {
  return Object.entries(fixed)
    .filter(([name]) => !OF_PG_UPGRADE.has(name))
    .map(([name, value]) => `${name} = '${value.replaceAll('\\', '\\\\').replaceAll("'", "''")}'\n`)
    .join('');
}

/** Appends to a file of the server's user. */
export async function addSettings(data: string, text: string): Promise<void> {
  await appendFile(path.join(data, 'postgresql.conf'), `\n${text}`);
}
