import { readAccounts, type ServerAccounts } from '../database/read-accounts.ts';
import { readTraffic } from '../database/read-traffic.ts';
import { readServerIdentity, type ServerIdentity } from '../database/server-identity.ts';
import type { Target } from '../database/target.ts';
import type { TrafficReading } from '../database/traffic.ts';
import { SafemigrateError } from '../errors.ts';
import { measuredOrReason, type Unmeasured } from '../measured.ts';
import type { RunId } from '../ownership/run-id.ts';
import type { Audit } from '../postgres/connection/audit.ts';
import { openSession } from '../postgres/connection/connect.ts';
import type { Session } from '../postgres/connection/session.ts';
import { withSession } from '../postgres/session-helpers.ts';
import { type CatalogueDigest, catalogueDigest, compareDigests } from './catalogue-digest.ts';
import { readServerFiles, type ServerFiles } from './server-files.ts';
import { type SharedCatalogues, sharedCatalogues } from './shared-objects.ts';

/** Everything about the target that a rehearsal must not change, at one moment; and what the target is used for. */
export interface TargetState {
  /** `gone` if there is no such database (any more). */
  readonly digest: CatalogueDigest | 'gone';
  /** OID of the database that has the target's name; null if there is none. */
  readonly oid: number | null;
  /** On which it was read; null if it is gone. */
  readonly server: ServerIdentity | null;
  /** Who was there and what the server had counted; the reason if it could not be read. */
  readonly accounts: ServerAccounts | Unmeasured;
  /** For the forecast, and which rows were written; the reason if it could not be read. */
  readonly traffic: TrafficReading | Unmeasured;
  readonly shared: SharedCatalogues;
  /** Files of a server on this machine; null if the command could not write them either. */
  readonly files: ServerFiles | null;
}

export interface WatchOptions {
  readonly target: Target;
  /** A session in another database, for what holds for the whole cluster. */
  readonly control: Session;
  readonly run: RunId;
  readonly audit: Audit;
  readonly signal?: AbortSignal;
}

/**
 * Reads the target's state now.
 * @param session in the target; default: a new one, and counters that are current.
 */
export async function readTargetState(options: WatchOptions, session?: Session): Promise<TargetState> {
  const { control, target } = options;
  // At once: they ask over two sessions, 8 ms each.
  const [read, shared] = await Promise.all([
    session ? readOver(session, { wait: false }) : readUnlessGone(options),
    sharedCatalogues(control, target.database.oid),
  ]);
  return { ...read, shared, files: await readServerFiles(control) };
}

type ReadInTarget = Omit<TargetState, 'shared' | 'files'>;

async function readUnlessGone({ target, run, audit, signal }: WatchOptions): Promise<ReadInTarget> {
  const options = { run, audit, purpose: 'watch', readOnly: true } as const;
  try {
    const opening = openSession(target.settings, signal === undefined ? options : { ...options, signal });
    return await withSession(opening, (session) => readOver(session, { wait: true }));
  } catch (error) {
    if (error instanceof SafemigrateError && error.sqlstate === UNDEFINED_DATABASE)
      return { digest: 'gone', oid: null, accounts: GONE, traffic: GONE, server: null };
    throw error;
  }
}

/**
 * Reads the accounts first: whoever has left by then has written all that the digest covers. The traffic comes last, so that the
 * reading knows of all that the session did before. A rehearsal is worth making without either of these two.
 */
async function readOver(session: Session, options: { wait: boolean }): Promise<ReadInTarget> {
  return {
    oid: Number((await session.query<{ oid: string }>(OID))[0]?.oid),
    accounts: await measuredOrReason(() => readAccounts(session, options)),
    digest: await catalogueDigest(session),
    server: await readServerIdentity(session),
    traffic: await measuredOrReason(() => readTraffic(session)),
  };
}

const OID = 'SELECT oid::int8 AS oid FROM pg_database WHERE datname = current_database()';

const GONE = { unmeasured: 'the target is gone' };
const UNDEFINED_DATABASE = '3D000';

/** The catalogues of the target of which rows were written between the two; none if it is gone, or another database by now. */
export function writtenCatalogues(one: TargetState, other: TargetState): string[] {
  if (one.digest === 'gone' || other.digest === 'gone' || one.oid !== other.oid) return [];
  return compareDigests(one.digest, other.digest);
}

/** Says in words where the target's catalogues differ; nothing if they are as they were. */
export function targetChangesBetween(before: TargetState, after: TargetState): string[] {
  if (after.digest === 'gone') return ['the database is gone'];
  if (before.oid !== after.oid) return ['another database has its name now'];
  return writtenCatalogues(before, after).map((catalogue) => `rows of ${catalogue} were written`);
}
