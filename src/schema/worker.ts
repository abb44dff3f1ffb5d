import { parentPort } from 'node:worker_threads';
import { SafemigrateError, sqlstateOf } from '../errors.ts';
import type { SchemaChange, SchemaSection } from '../model/report.ts';
import type { Audit, AuditEntry } from '../postgres/connection/audit.ts';
import { openSession } from '../postgres/connection/connect.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import type { Session } from '../postgres/connection/session.ts';
import { type Comparison, changesBetween, compareWith, fingerprint } from './compare-schemas.ts';
import { objectHashes } from './objects.ts';
import { buildFactBase, encodeId, type Fact, type FactBase } from './pg-delta.ts';
import { type Snapshot, takeSnapshot } from './schema-facts.ts';
import { compareUnmodeled } from './unmodeled.ts';

/**
 * The thread that reads and compares schemas. Both stall an event loop, for more than a second if there are 10,000 tables, and the
 * main thread must not stall: it runs the proxy. The thread lives as long as the run, because the schema before is too large to be sent
 * between threads.
 */
export type Request =
  | { readonly kind: 'before'; readonly settings: ConnectionSettings; readonly run: string | undefined }
  | { readonly kind: 'fingerprint' | 'hashes' }
  | { readonly kind: 'after'; readonly inUse: boolean }
  | { readonly kind: 'describe' | 'upgraded'; readonly settings: ConnectionSettings };

export interface Responses {
  before: null;
  fingerprint: string;
  hashes: Record<string, string>;
  after: Comparison;
  describe: SchemaChange[];
  upgraded: VersionDifference;
}

/** Differences between the schema before and the same schema on another version. */
export interface VersionDifference {
  readonly changes: SchemaChange[];
  readonly unmodeled: SchemaSection['unmodeled'];
}

export type ThreadMessage =
  | { readonly type: 'audit'; readonly entry: AuditEntry }
  | { readonly type: 'done'; readonly id: number; readonly value: Responses[Request['kind']] }
  | { readonly type: 'failed'; readonly id: number; readonly failure: Failure };

/** An error as plain data: classes do not survive between threads. */
export interface Failure {
  /** null for an error that no code foresees. */
  readonly code: SafemigrateError['code'] | null;
  readonly message: string;
  readonly hint?: string;
  readonly sqlstate?: string;
  readonly stack?: string;
}

const STATEMENT_TIMEOUT_MS = 300_000;

/** The schema before the command, and where it was read. */
let before: { settings: ConnectionSettings; run: string | undefined; schema: Snapshot } | undefined;

if (parentPort) {
  const port = parentPort;
  const post = (message: ThreadMessage) => port.postMessage(message);
  const audit = (entry: AuditEntry) => post({ type: 'audit', entry });
  port.on('message', ({ id, request }: { id: number; request: Request }) => {
    respond(request, audit).then(
      (value) => post({ type: 'done', id, value }),
      (error: unknown) => post({ type: 'failed', id, failure: failureOf(error) }),
    );
  });
}

async function respond(request: Request, audit: Audit): Promise<Responses[Request['kind']]> {
  if (request.kind === 'before') {
    const { settings, run } = request;
    const schema = await withSession({ settings, run, readOnly: true, audit }, takeSnapshot);
    before = { settings, run, schema };
    return null;
  }
  if (!before) throw new Error(`${request.kind}: the schema before the command was not read`);
  const { settings, run, schema } = before;
  switch (request.kind) {
    case 'fingerprint':
      return fingerprint(schema);
    case 'hashes':
      return objectHashes(schema);
    case 'after': {
      const { inUse } = request;
      // Taking renames back needs a session that may write.
      return await withSession({ settings, run, readOnly: inUse, audit }, (session) =>
        compareWith(schema, session, { inUse }),
      );
    }
    case 'describe': {
      const options = { settings: request.settings, run, readOnly: true, audit };
      return changesBetween(schema, await withSession(options, takeSnapshot));
    }
    case 'upgraded': {
      // Printing views again needs a session that may write.
      const options = { settings: request.settings, run, readOnly: false, audit };
      return await withSession(options, (session) => compareVersions(schema, session));
    }
  }
}

async function compareVersions(schema: Snapshot, session: Session): Promise<VersionDifference> {
  const other = await takeSnapshot(session);
  const facts = await reprintViews(session, schema.facts, other.facts);
  return {
    changes: changesBetween({ ...schema, facts }, other),
    unmodeled: compareUnmodeled(schema.unmodeled, other.unmodeled),
  };
}

const BEGIN = [
  'BEGIN',
  'SET LOCAL search_path = pg_catalog',
  // Event triggers of the database would run for each view. At a service the role may lack the right: the triggers' work is undone, too.
  "SELECT set_config('session_replication_role', 'replica', true) WHERE has_parameter_privilege('session_replication_role', 'SET')",
  'SAVEPOINT before',
];
const UNDO = 'ROLLBACK TO SAVEPOINT before';
const PRINTED = "SELECT pg_get_viewdef('pg_temp.safemigrate_reprinted'::regclass) AS definition";

/**
 * Each version prints the same view in its own way, such as with fewer qualified names from 16 on. So views whose definitions differ
 * are created from their old definitions on the new server, in a transaction that is rolled back, and printed there.
 * @param session of a superuser if possible, on the server that `after` was read from.
 * @returns `before`, with these definitions. A view that cannot be created keeps its own.
 */
async function reprintViews(session: Session, before: FactBase, after: FactBase): Promise<FactBase> {
  const printed = new Map<string, string>();
  try {
    await session.queryAll(BEGIN);
    for (const { id, payload } of before.facts().filter(isView)) {
      const definition = String(payload.def);
      const now = after.get(id)?.payload.def;
      if (now === undefined || now === definition) continue;
      const again = await printAgain(session, definition);
      if (again !== null) printed.set(encodeId(id), again);
    }
  } finally {
    // A lost connection has rolled back by itself, and the error that is being thrown says so.
    await session.query('ROLLBACK').catch(() => undefined);
  }
  const facts = before.facts().map((fact) => {
    const definition = printed.get(encodeId(fact.id));
    return definition === undefined ? fact : { ...fact, payload: { ...fact.payload, def: definition } };
  });
  return buildFactBase(facts, [...before.edges], before.source);
}

function isView({ id }: Fact): boolean {
  return id.kind === 'view' || id.kind === 'materializedView';
}

/** @returns null if the server refuses the definition. */
async function printAgain(session: Session, definition: string): Promise<string | null> {
  const create = `CREATE TEMP VIEW safemigrate_reprinted AS ${definition.replace(/;\s*$/, '')}`;
  try {
    const [, rows] = await session.queryAll<{ definition: string }>([create, PRINTED, UNDO]);
    return rows?.[0]?.definition ?? null;
  } catch (error) {
    if (sqlstateOf(error) === undefined) throw error;
    await session.query(UNDO);
    return null;
  }
}

async function withSession<T>(
  options: { settings: ConnectionSettings; run: string | undefined; readOnly: boolean; audit: Audit },
  use: (session: Session) => Promise<T>,
): Promise<T> {
  const { settings, run, readOnly, audit } = options;
  const session = await openSession(settings, {
    purpose: 'schema',
    ...(run === undefined ? {} : { run }),
    readOnly,
    statementTimeoutMs: STATEMENT_TIMEOUT_MS,
    audit,
  });
  try {
    return await use(session);
  } finally {
    await session.close();
  }
}

function failureOf(error: unknown): Failure {
  const plain = error instanceof Error ? error : new Error(String(error));
  const sqlstate = sqlstateOf(error);
  return {
    code: error instanceof SafemigrateError ? error.code : sqlstate === undefined ? null : 'SERVER',
    message: plain.message,
    ...(error instanceof SafemigrateError && error.hint !== undefined ? { hint: error.hint } : {}),
    ...(sqlstate === undefined ? {} : { sqlstate }),
    ...(plain.stack === undefined ? {} : { stack: plain.stack }),
  };
}
