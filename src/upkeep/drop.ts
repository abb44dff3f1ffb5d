import { messageOf, SafemigrateError, sqlstateOf } from '../errors.ts';
import { identifier } from '../sql.ts';
import type { Session } from '../target/session.ts';
import { type OwnedDatabase, ownedDatabases } from './owned.ts';
import type { RunId } from './run-id.ts';

/** What the caller believes it drops; all of it is checked again against the server at that moment. */
export interface DropOrder {
  readonly name: string;
  readonly run: RunId;
  /** Undefined where the making was cut off before anybody could read the OID. */
  readonly oid: number | undefined;
  readonly role: 'clone' | 'probe' | 'original';
  /** The run is our own, so its lock being held is no reason to leave the database alone. */
  readonly ownRun: boolean;
}

/**
 * Drops a database that safemigrate made, and only that: name, mark (or the signs of a half-born one), OID, role and
 * the death of its owner are read from the server right before. Sessions inside are ended.
 * @returns false where there is no such database (any more).
 * @throws SafemigrateError `NOT_OURS` where a check fails; `PRIVILEGE` where the server refuses.
 */
export async function dropOwnedDatabase(session: Session, order: DropOrder): Promise<boolean> {
  const found = (await ownedDatabases(session, { sizes: false })).find(({ name }) => name === order.name);
  if (!found) return false;
  const doubt = doubtOf(found, order);
  if (doubt) {
    throw new SafemigrateError('NOT_OURS', `database ${order.name} was not dropped: ${doubt}`, {
      hint: `Look at it yourself; if it can go: DROP DATABASE ${identifier(order.name)} WITH (FORCE);`,
    });
  }
  try {
    for (const statement of droppingStatements(found.name)) await session.query(statement);
  } catch (error) {
    if (sqlstateOf(error) === '3D000') return false;
    throw new SafemigrateError(
      'PRIVILEGE',
      `database ${found.name} could not be dropped: ${messageOf(error)}`,
      {
        cause: error,
        hint: `Run \`safemigrate clean\` as a role that may: a member of ${found.owner} that may end its sessions.`,
      },
    );
  }
  return true;
}

/** Closed first, so that nothing reconnects between the end of its sessions and its own. */
export function droppingStatements(name: string): string[] {
  const database = identifier(name);
  return [`ALTER DATABASE ${database} ALLOW_CONNECTIONS false`, `DROP DATABASE ${database} WITH (FORCE)`];
}

function doubtOf(found: OwnedDatabase, order: DropOrder): string | null {
  if (found.standing === 'foreign') return found.doubt;
  if (found.run !== order.run) return `it belongs to run ${found.run}, not ${order.run}`;
  if (found.role !== order.role) return `it is marked as ${found.role}, not as ${order.role}`;
  if (order.oid !== undefined && found.oid !== order.oid)
    return `its OID is ${found.oid}, and the one that was made had ${order.oid}`;
  if (!order.ownRun && found.owning !== 'dead') return `the run that made it is ${found.owning}`;
  return null;
}
