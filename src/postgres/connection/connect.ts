import type { Client } from 'pg';
import { SafemigrateError } from '../../errors.ts';
import { literal } from '../sql/quote.ts';
import type { Audit } from './audit.ts';
import type { ConnectionSettings } from './connection-settings.ts';
import { dial, type Link } from './dial.ts';
import { pg } from './pg.ts';
import { PgSession } from './pg-session.ts';
import type { Session } from './session.ts';
import { refuseUnsupported } from './supported-versions.ts';

export { dial } from './dial.ts';

export interface SessionOptions {
  /** The purpose of the session, shown in its application_name and in the audit: `control`, `inspect`, `clone`, … */
  readonly purpose: string;
  readonly run?: string;
  /** Another database of the same server. */
  readonly database?: string;
  /** Default 30,000; 0 is no limit. */
  readonly statementTimeoutMs?: number;
  /** Default 5,000; 0 is no limit. */
  readonly lockTimeoutMs?: number;
  readonly readOnly?: boolean;
  /** It reads rows of the user's on the target: each statement ends with READER_MARK. */
  readonly marked?: boolean;
  readonly audit?: Audit;
  /** Accepts a pooler in between, for single statements: session state is not reliable then, nor is `pid`. */
  readonly throughPooler?: boolean;
  /** Queries of its `client`, and those of queryAll(), are sent at once, without waiting for the answers to earlier ones. */
  readonly pipelined?: boolean;
  /** Aborts the connecting, and later cancels the query that runs at that moment; the session stays usable. */
  readonly signal?: AbortSignal;
}

const DEFAULT_STATEMENT_TIMEOUT_MS = 30_000;
const DEFAULT_LOCK_TIMEOUT_MS = 5_000;
const MAX_NAME_BYTES = 63;

// Settings are made after the login, because poolers refuse unknown start-up parameters. Names are schema-qualified, because
// the role's own search_path still applies. Nothing is set unless the backend is the one that the login announced, because
// behind a pooler the settings would stay on a connection that belongs to others. Each is named as a constant: a rehearsal's own
// session is judged as the command's are. event_triggers exists from version 17 on.
function setUpSql(settings: Readonly<Record<string, string>>): string {
  const made = Object.entries(settings).map(
    ([name, value]) => `pg_catalog.set_config(${literal(name)}, ${literal(value)}, false)`,
  );
  const withoutEventTriggers = `CASE WHEN pg_catalog.current_setting('is_superuser') OPERATOR(pg_catalog.=) 'on'
    AND pg_catalog.current_setting('event_triggers', true) IS NOT NULL
    THEN pg_catalog.set_config('event_triggers', 'off', false) END`;
  return `SELECT pg_catalog.pg_backend_pid() AS pid,
    CASE WHEN pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.=) $1::pg_catalog.int4
    THEN pg_catalog.concat(${[...made, withoutEventTriggers].join(', ')}) END AS made`;
}

/**
 * Opens a session of our own.
 * @throws SafemigrateError `CONNECTION` if no host accepts the login, `SERVER` if it is not PostgreSQL 14 or later or a
 * pooler is in between, `CONFIGURATION` for TLS files, `INTERRUPTED` by the signal.
 */
export async function openSession(settings: ConnectionSettings, options: SessionOptions): Promise<Session> {
  const database = options.database ?? settings.database;
  const asked = { ...settings, database };
  return await dial(asked, (link) => login(asked, link, options), options.signal);
}

/**
 * Logs in for replication, for which pg_hba.conf has separate lines, and logs out again.
 * @throws SafemigrateError as openSession() does.
 */
export async function tryReplication(
  settings: ConnectionSettings,
  options: Pick<SessionOptions, 'purpose' | 'run' | 'signal'>,
): Promise<void> {
  const tryOnce = async (link: Link) => {
    const client = newClient(settings, link, options, { replication: 'true' });
    client.on('error', () => {});
    await client.connect();
    await client.end();
  };
  await dial(settings, tryOnce, options.signal);
}

/** Returns `safemigrate <run> <purpose>`, cut to the length that PostgreSQL keeps of an application_name. */
export function applicationName({ run, purpose }: Pick<SessionOptions, 'run' | 'purpose'>): string {
  const name = ['safemigrate', run, purpose].filter((part) => part !== undefined).join(' ');
  return Buffer.from(name).subarray(0, MAX_NAME_BYTES).toString();
}

async function login(settings: ConnectionSettings, link: Link, options: SessionOptions): Promise<Session> {
  const client = newClient(settings, link, options);
  const reported = new Map<string, string>();
  const { connection } = client;
  connection.on('parameterStatus', (message: { parameterName: string; parameterValue: string }) =>
    reported.set(message.parameterName, message.parameterValue),
  );
  const { statementTimeoutMs = DEFAULT_STATEMENT_TIMEOUT_MS } = options;
  const session = new PgSession(client, settings, link, Object.assign({ statementTimeoutMs }, options));
  await client.connect();
  link.accept(reported);
  refuseUnsupported(reported);
  await session.setUp(setUpSql(sessionSettings(options)));
  return session;
}

function newClient(
  settings: ConnectionSettings,
  link: Link,
  options: Pick<SessionOptions, 'purpose' | 'run' | 'pipelined'>,
  more: object = {},
): Client {
  const binding = settings.parameters.channel_binding ?? 'prefer';
  let boundOffered = false;
  const client = new pg.Client({
    ...(settings.parameters.options === undefined ? {} : { options: settings.parameters.options }),
    host: link.address.host,
    port: link.address.port,
    user: settings.user,
    database: settings.database,
    application_name: applicationName(options),
    pipeline: options.pipelined ?? false,
    ...more,
    ssl: false,
    sslnegotiation: 'postgres',
    enableChannelBinding: link.encrypted && binding !== 'disable',
    stream: () => alreadyConnected(link),
    password: () => {
      if (binding === 'require' && !boundOffered) throw unbound();
      if (link.password === undefined) throw noPassword(settings);
      return link.password;
    },
  });
  client.connection.on('authenticationSASL', ({ mechanisms }: { mechanisms: string[] }) => {
    boundOffered = link.encrypted && mechanisms.includes('SCRAM-SHA-256-PLUS');
  });
  return client;
}

function sessionSettings(options: SessionOptions): Record<string, string> {
  return {
    search_path: 'pg_catalog',
    lock_timeout: String(options.lockTimeoutMs ?? DEFAULT_LOCK_TIMEOUT_MS),
    statement_timeout: String(options.statementTimeoutMs ?? DEFAULT_STATEMENT_TIMEOUT_MS),
    idle_session_timeout: '0',
    idle_in_transaction_session_timeout: '0',
    jit: 'off',
    ...(options.readOnly ? { default_transaction_read_only: 'on' } : {}),
  };
}

/** Adapts a connected socket to pg, which would connect by itself: the socket only emits `connect`. */
function alreadyConnected({ socket }: Link): Link['socket'] {
  socket.connect = () => {
    setImmediate(() => socket.emit('connect'));
    return socket;
  };
  return socket;
}

function noPassword({ user }: ConnectionSettings): SafemigrateError {
  return new SafemigrateError(
    'CONNECTION',
    `The server asks for the password of "${user}", and none is given.`,
    {
      hint: 'Put it into the URL, PGPASSWORD or ~/.pgpass (which must not be readable by others).',
    },
  );
}

function unbound(): SafemigrateError {
  return new SafemigrateError(
    'CONNECTION',
    'channel_binding=require is set, and the server does not offer SCRAM with channel binding.',
    { hint: 'It needs TLS and a password stored as scram-sha-256; else use channel_binding=prefer.' },
  );
}
