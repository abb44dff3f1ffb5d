import { setTimeout as pause } from 'node:timers/promises';
import { preparedTransactions } from '../database/activity.ts';
import { messageOf, SafemigrateError, sqlstateOf } from '../errors.ts';
import type { Session } from '../postgres/connection/session.ts';
import { withSession } from '../postgres/session-helpers.ts';
import { identifier, literal } from '../postgres/sql/quote.ts';
import { type OwnedDatabase, ownedDatabases } from './owned.ts';
import { dropOwnedSlot, endingStatements, ownedSlots } from './owned-replication.ts';
import { isPutAside } from './put-aside.ts';
import type { RunId } from './run-id.ts';

/** Properties of the object to drop; each is checked again on the server. */
export interface DropOrder {
  readonly name: string;
  readonly run: RunId;
  /** undefined if the creation was cut off before the OID could be read. */
  readonly oid: number | undefined;
  readonly role: NonNullable<OwnedDatabase['role']>;
  /** The run is our own, so the database may be dropped although the run's lock is held. */
  readonly ownRun: boolean;
  /** Opens a session in that database: prepared transactions can be ended only from inside. */
  readonly enter: (database: string) => Promise<Session>;
}

/**
 * Drops a database that safemigrate created, and no other: name, mark (or the signs of an unmarked one), OID, role and the death of
 * its owner are read from the server right before. Sessions inside are terminated.
 * @returns false if there is no such database (any more).
 * @throws SafemigrateError `NOT_OURS` if a check fails; `PRIVILEGE` or `CLONE` if the server refuses.
 */
export async function dropOwnedDatabase(session: Session, order: DropOrder): Promise<boolean> {
  let forceIsRefused = false;
  for (let tries = 1; ; tries++) {
    const databases = await ownedDatabases(session, { sizes: false });
    const found = databases.find(({ name }) => name === order.name);
    if (!found) return false;
    const doubt = doubtOf(found, order);
    if (doubt) {
      throw new SafemigrateError('NOT_OURS', `Database ${order.name} was not dropped: ${doubt}.`, {
        hint: `Look at it yourself; if it can go: DROP DATABASE ${identifier(order.name)} WITH (FORCE);`,
      });
    }
    try {
      await endWhatOutlivesSessions(session, order, found);
      if (forceIsRefused) await dropBesideAutovacuum(session, found.name);
      else await session.query(droppingStatement(found.name));
      return true;
    } catch (error) {
      if (sqlstateOf(error) === UNDEFINED_DATABASE) return false;
      if (sqlstateOf(error) === undefined) throw error;
      // Another `clean` at the same time causes various errors: it is a failure only if the database still exists.
      if (tries === TRIES) throw refusal(found, error);
      forceIsRefused = sqlstateOf(error) === INSUFFICIENT_PRIVILEGE;
      await pause(TRY_AGAIN_MS);
    }
  }
}

const UNDEFINED_DATABASE = '3D000';
const INSUFFICIENT_PRIVILEGE = '42501';
const TRIES = 3;
const TRY_AGAIN_MS = 300;

/**
 * FORCE terminates the sessions inside while new connections wait for its lock, so the database need not be closed first. ALTER
 * DATABASE of a database that is being dropped would be FATAL to our session.
 */
export function droppingStatement(name: string): string {
  return `DROP DATABASE ${identifier(name)} WITH (FORCE)`;
}

/**
 * Drops a database without FORCE, which may not end a worker of autovacuum for roles that are no superusers; the plain statement
 * cancels it for everybody, and waits up to 5 s for the sessions that are ended here.
 */
async function dropBesideAutovacuum(session: Session, name: string): Promise<void> {
  await session.query(
    `SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity
      WHERE datname = $1 AND backend_type = 'client backend' AND pg_catalog.pg_has_role(usesysid, 'USAGE')`,
    [name],
  );
  await session.query(`DROP DATABASE ${identifier(name)}`);
}

/** Ends prepared transactions, subscriptions and slots, with which DROP DATABASE refuses even with FORCE. */
async function endWhatOutlivesSessions(
  session: Session,
  { name, role, enter }: DropOrder,
  found: OwnedDatabase,
): Promise<void> {
  if (role === 'clone')
    for (const slot of await ownedSlots(session))
      if (slot.database === name) await dropOwnedSlot(session, { ...slot, ownRun: true });
  const prepared = await preparedTransactions(session, name);
  // Those of a former target may be in use: its DROP must be refused.
  const subscriptions = isPutAside(role) ? [] : await session.query<{ name: string }>(SUBSCRIPTIONS, [name]);
  if (prepared.length === 0 && subscriptions.length === 0) return;
  // A swap's clone is closed. Its mark says that it is ours, so it may be open for the moment until it is dropped.
  if (role === 'clone' && found.ownershipStatus === 'marked')
    await session.query(`ALTER DATABASE ${identifier(name)} ALLOW_CONNECTIONS true`);
  await withSession(enter(name), async (inside) => {
    for (const { gid } of prepared) await inside.query(`ROLLBACK PREPARED ${literal(gid)}`);
    for (const subscription of subscriptions) await dropSubscription(inside, subscription.name);
  });
}

const SUBSCRIPTIONS = `SELECT s.subname AS name FROM pg_catalog.pg_subscription s
  JOIN pg_catalog.pg_database d ON d.oid = s.subdbid WHERE d.datname = $1`;

/** Drops subscriptions without the slots at the publisher, which may belong to others. */
async function dropSubscription(inside: Session, name: string): Promise<void> {
  for (const statement of endingStatements(name)) await inside.query(statement);
}

function refusal(found: OwnedDatabase, error: unknown): SafemigrateError {
  const message = `Database ${found.name} could not be dropped: ${messageOf(error)}.`;
  if (sqlstateOf(error) === INSUFFICIENT_PRIVILEGE) {
    return new SafemigrateError('PRIVILEGE', message, {
      cause: error,
      hint: `Run \`safemigrate clean\` as a role that may: a member of ${found.owner} that may end its sessions.`,
    });
  }
  return new SafemigrateError('CLONE', message, {
    cause: error,
    hint: 'Run `safemigrate clean` again when that is out of the way.',
  });
}

function doubtOf(found: OwnedDatabase, order: DropOrder): string | null {
  if (found.ownershipStatus === 'foreign') return found.doubt;
  if (found.ownershipStatus === 'closed') return 'it is a target, closed for a swap';
  if (found.run !== order.run) return `it belongs to run ${found.run}, not ${order.run}`;
  if (found.role !== order.role) return `it is marked as ${found.role}, not as ${order.role}`;
  if (order.oid !== undefined && found.oid !== order.oid)
    return `its OID is ${found.oid}, but the database that was created had ${order.oid}`;
  if (!order.ownRun && found.owning !== 'dead') return `the run that created it is ${found.owning}`;
  return null;
}
