import { readArrivals } from '../database/activity.ts';
import { countOwn, readTraffic } from '../database/read-traffic.ts';
import { movedBetween, readServerIdentity, type ServerIdentity } from '../database/server-identity.ts';
import type { Target } from '../database/target.ts';
import { type TargetTraffic, type TrafficReading, trafficBetween } from '../database/traffic.ts';
import { messageOf, SafemigrateError, sqlstateOf } from '../errors.ts';
import type { Caveat, SchemaChange, TargetConnection, TargetSection } from '../model/report.ts';
import type { RunId } from '../ownership/run-id.ts';
import type { Audit } from '../postgres/connection/audit.ts';
import { openSession } from '../postgres/connection/connect.ts';
import type { Session } from '../postgres/connection/session.ts';
import { COUNTS_AT_ONCE } from '../postgres/connection/supported-versions.ts';
import { type CatalogueDigest, catalogueDigest, compareDigests } from '../schema/catalogue-digest.ts';
import {
  compareShared,
  type SharedCatalogues,
  type SharedChange,
  sharedCatalogues,
} from '../schema/shared.ts';
import type { AuthorOf } from './own-transactions.ts';

/** Everything about the target that a rehearsal must not change, at one moment. */
export interface TargetState {
  /** `gone` where there is no such database (any more). */
  readonly digest: CatalogueDigest | 'gone';
  /** On which it was read; null where it is gone. */
  readonly server: ServerIdentity | null;
  /** What it is used for, for the forecast; the reason where that could not be read. */
  readonly traffic: TrafficReading | { readonly unmeasured: string };
  /** Transactions of the session that read the traffic, where that was read once more. */
  readonly ours?: number;
  readonly shared: SharedCatalogues;
  /** Sessions established to the target until the command began, or until now; null where the server counts them late. */
  readonly arrivals: number | null;
}

export interface WatchOptions {
  readonly target: Target;
  /** A session in another database, for what holds for the whole cluster. */
  readonly control: Session;
  readonly run: RunId;
  readonly audit: Audit;
  readonly signal?: AbortSignal;
}

export async function inTarget<T>(
  { target: { settings }, ...options }: Omit<WatchOptions, 'control'>,
  read: (session: Session) => Promise<T>,
): Promise<T> {
  const session = await openSession(settings, { ...options, purpose: 'watch', readOnly: true });
  try {
    return await read(session);
  } finally {
    await session.close();
  }
}

/**
 * @param options.session one in the target, for the first time; default: a new one.
 * @param options.others what opens sessions in the target meanwhile: they are not to be among those that come from then on.
 */
export async function readTargetState(
  options: WatchOptions,
  { session, others }: { session?: Session; others?: Promise<unknown> } = {},
): Promise<TargetState> {
  const { control, target } = options;
  const [read, shared] = await Promise.all([
    session ? readFirst(session, target) : readWithin(options),
    sharedCatalogues(control, target.database.oid),
    others,
  ]);
  const { sessions } = await readArrivals(control, target.database.oid);
  return { ...read, shared, arrivals: target.server.versionNum >= COUNTS_AT_ONCE ? sessions : null };
}

/**
 * To be called right before the command: whoever came before that, while the clone was made and read, was not it.
 * @param busy what was done to make the clone has been counted as if the target were used for it.
 */
export async function beginningNow(
  state: TargetState,
  options: WatchOptions,
  { busy }: { busy: boolean },
): Promise<TargetState> {
  const since = busy && state.digest !== 'gone' ? await inTarget(options, readTrafficAlone) : {};
  if (state.arrivals === null) return { ...state, ...since };
  const { sessions } = await readArrivals(options.control, options.target.database.oid);
  return { ...state, ...since, arrivals: sessions };
}

async function readTrafficAlone(session: Session): Promise<Pick<TargetState, 'traffic' | 'ours'>> {
  const traffic = await trafficOf(session, false);
  return { traffic, ours: session.transactions };
}

type ReadInTarget = Pick<TargetState, 'digest' | 'traffic' | 'server'>;

async function readWithin(options: WatchOptions): Promise<ReadInTarget> {
  try {
    return await inTarget(options, (session) => readOver(session, true));
  } catch (error) {
    if (error instanceof SafemigrateError && error.sqlstate === UNDEFINED_DATABASE)
      return { digest: 'gone', traffic: { unmeasured: 'the target is gone' }, server: null };
    throw error;
  }
}

async function readFirst(session: Session, { server }: Target): Promise<ReadInTarget> {
  await countOwn(session, server.versionNum);
  return readOver(session, false);
}

/** The traffic first: what the session does after that the next reading need not know of. */
async function readOver(session: Session, withIndexes: boolean): Promise<ReadInTarget> {
  return {
    traffic: await trafficOf(session, withIndexes),
    digest: await catalogueDigest(session),
    server: await readServerIdentity(session),
  };
}

/** Without a forecast a rehearsal is still worth making. */
async function trafficOf(session: Session, withIndexes: boolean): Promise<TargetState['traffic']> {
  try {
    return await readTraffic(session, withIndexes);
  } catch (error) {
    if (sqlstateOf(error) === undefined) throw error;
    return { unmeasured: messageOf(error) };
  }
}

const UNDEFINED_DATABASE = '3D000';

export interface TargetComparison {
  readonly changes: TargetSection['changes'];
  /** The target's traffic since `before`; the reason where it could not be read. */
  readonly traffic: TargetTraffic | { readonly unmeasured: string };
  /** In words, where another server was asked the second time. */
  readonly moved?: string | undefined;
  readonly caveats: Caveat[];
}

/** What the proxy and the watch over the target's sessions saw of the command. */
export interface Seen {
  /** It sent a CREATE DATABASE or DROP DATABASE. */
  readonly madeDatabases: boolean;
  /** Databases that it made for itself, which are dropped at the end. */
  readonly ownDatabases: readonly string[];
  /** Sessions that it opened on the target itself. */
  readonly targetConnections: readonly TargetConnection[];
  /** What each of its runs tells of who made a change. */
  readonly authors: readonly AuthorOf[];
}

export interface Meanwhile extends Seen {
  readonly before: TargetState;
  readonly reachedClone: boolean;
  /** What the command changed on the clone. */
  readonly cloneChanges: readonly SchemaChange[];
  /**
   * Transactions that we made in the target since its traffic was first read, or by the same session before that, where
   * it was not read once more.
   */
  readonly ours?: number;
  /** The target after the command, where it is being read already. */
  readonly after?: Promise<TargetState> | undefined;
  /** What the target has different from the clone before the command; asked only where something was written. */
  readonly describeTarget: () => Promise<readonly SchemaChange[]>;
}

/** Looks at the target once more: what changed there since `before`, and who did it. */
export async function compareTarget(options: WatchOptions, meanwhile: Meanwhile): Promise<TargetComparison> {
  let after: TargetState;
  try {
    after = await (meanwhile.after ?? readTargetState(options));
  } catch (error) {
    const reason = `the target could not be read again: ${messageOf(error)}`;
    return {
      changes: [],
      traffic: { unmeasured: reason },
      caveats: [{ path: 'target.changes', kind: 'unmeasured', reason }],
    };
  }
  const written = writtenCatalogues(meanwhile.before, after);
  const targetChanges =
    written.length > 0 && after.digest !== 'gone' ? await meanwhile.describeTarget().catch(() => []) : [];
  const unread = [...(after.digest === 'gone' ? [] : after.digest.unread), ...after.shared.unread];
  const caveats = unread.map((reason): Caveat => ({ path: 'target.changes[]', kind: 'unmeasured', reason }));
  const compare = { ...meanwhile, after, written, targetChanges };
  const moved = movedSince(meanwhile.before, after);
  if (moved === undefined)
    return {
      changes: attribute(compare),
      traffic: sampled(meanwhile, after),
      caveats,
    };
  // Sessions and statements are counted by each server for itself.
  const reason = `${moved}: what had not reached it by then is told as a change`;
  return {
    changes: attribute({ ...compare, after: { ...after, arrivals: null } }),
    traffic: { unmeasured: moved },
    moved,
    caveats: [...caveats, { path: 'target.changes', kind: 'estimate', reason }],
  };
}

function movedSince(before: TargetState, after: TargetState): string | undefined {
  return before.server && after.server ? movedBetween(before.server, after.server) : undefined;
}

function sampled({ before, ours }: Meanwhile, after: TargetState): TargetComparison['traffic'] {
  const [first, second] = [before.traffic, after.traffic];
  if ('unmeasured' in first) return first;
  return 'unmeasured' in second ? second : trafficBetween(first, second, before.ours ?? ours);
}

/** Where the target's catalogues differ, in words; nothing, where they are as they were. */
export function targetChangesBetween(before: TargetState, after: TargetState): string[] {
  if (after.digest === 'gone') return ['the database is gone'];
  return writtenCatalogues(before, after).map((catalogue) => `rows of ${catalogue} were written`);
}

function writtenCatalogues(before: TargetState, after: TargetState): string[] {
  if (before.digest === 'gone' || after.digest === 'gone') return [];
  return compareDigests(before.digest, after.digest);
}

/** What speaks for and against the command having made a change of the target. */
export interface TargetEvidence extends Seen {
  readonly before: TargetState;
  readonly after: TargetState;
  readonly written: readonly string[];
  readonly reachedClone: boolean;
  readonly cloneChanges: readonly SchemaChange[];
  readonly targetChanges: readonly SchemaChange[];
}

/** The session that reads the target after the command. */
const OWN_ARRIVALS = 1;

/**
 * Says of each difference who made it. Sessions that were there before the command cannot be its own; a change that
 * the command made on the clone too, or that came while it never reached the clone, is put down to it. What holds for
 * the whole cluster (roles, settings, ownership) can be changed from the clone as well: the transaction that wrote it tells
 * who did, and where that cannot be told, it is put down to the command, since a person must look.
 */
export function attribute(evidence: TargetEvidence): TargetSection['changes'] {
  const { before, after, written, targetChanges } = evidence;
  const isOwn = (what: string) =>
    evidence.ownDatabases.some(
      (name) =>
        what === `database ${name} created` ||
        (what.startsWith('settings of ') && what.includes(` in database ${name} `)),
    );
  const shared = compareShared(before.shared, after.shared).filter(({ what }) => !isOwn(what));
  const { madeBy, why } = decide(evidence);
  return [
    ...describe(written, targetChanges).map((what) => ({ what, madeBy, evidence: why })),
    ...shared.map((change) => ({ what: change.what, ...whoseShared(change, evidence) })),
  ];
}

/** CREATE and DROP DATABASE run in no function and no block, so that every one of the command's own was seen. */
function whoseShared(
  change: SharedChange,
  { madeDatabases, targetConnections, authors }: TargetEvidence,
): Pick<TargetSection['changes'][number], 'madeBy' | 'evidence'> {
  const { what } = change;
  const found = authors.map((authorOf) => authorOf(change));
  const [first] = found;
  const own = found.find(({ who }) => who === 'command');
  if (own?.who === 'command') return { madeBy: 'command', evidence: own.why };
  if (first?.who === 'others' && targetConnections.length === 0 && found.every(({ who }) => who === 'others'))
    return { madeBy: 'others', evidence: first.why };
  if (/^database .* (created|dropped)$/.test(what) && !madeDatabases && targetConnections.length === 0)
    return { madeBy: 'others', evidence: 'the command made and dropped no database' };
  return {
    madeBy: 'command',
    evidence: 'it can be changed from the clone, and changed while the command ran',
  };
}

function describe(catalogues: readonly string[], changes: readonly SchemaChange[]): string[] {
  if (catalogues.length === 0) return [];
  if (changes.length > 0) {
    const made = changes.filter(({ verb }) => verb === 'create').map(({ object }) => object);
    // Owner and privileges of what is new are part of its making.
    const told = changes.filter(({ verb, object }) => verb === 'create' || !made.includes(object));
    return told.map(({ verb, kind, object }) => `${verb} ${kind} ${object}`);
  }
  // A new file for a relation (TRUNCATE, REINDEX, VACUUM FULL) leaves the schema as it was.
  return [`rows of ${catalogues.join(', ')} were written, and the schema is the same`];
}

function decide({
  before,
  after,
  reachedClone,
  cloneChanges,
  targetChanges,
  targetConnections,
}: TargetEvidence): {
  madeBy: 'command' | 'others';
  why: string;
} {
  const [met] = targetConnections;
  if (met) return { madeBy: 'command', why: `${met.process.command} connected to the target as ${met.user}` };
  const counted = before.arrivals !== null && after.arrivals !== null;
  if (counted && after.arrivals - before.arrivals <= OWN_ARRIVALS)
    return { madeBy: 'others', why: 'no session connected to the target while the command ran' };
  const same = targetChanges.some((change) =>
    cloneChanges.some(({ kind, object }) => kind === change.kind && object === change.object),
  );
  if (same) return { madeBy: 'command', why: 'the command makes the same change on the clone' };
  if (!reachedClone)
    return {
      madeBy: 'command',
      why: 'the command never connected to the clone, and somebody did to the target',
    };
  return { madeBy: 'others', why: 'the command worked on the clone, and makes no such change there' };
}
