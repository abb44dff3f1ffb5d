import { setTimeout as delay } from 'node:timers/promises';
import { SafemigrateError, sqlstateOf } from '../errors.ts';
import type { Session } from '../postgres/connection/session.ts';
import { identifier } from '../postgres/sql/quote.ts';
import { runIsAlive } from './owned.ts';
import { parseRunId, RUN_ID_LENGTH, type RunId } from './run-id.ts';

/**
 * Name of a run's publication in the target, its replication slot, and its subscription in the clone. It is their mark as well: they
 * have no place for another one that all roles may write.
 */
export function replicationName(run: RunId): string {
  return `${PREFIX}${run}`;
}

/** Name of what a run's way back has: a publication and a slot in the new target, a subscription in the kept original. */
export function wayBackName(run: RunId): string {
  return `${replicationName(run)}${BACK}`;
}

const PREFIX = 'safemigrate_';
const BACK = '_back';
const PATTERN = `^${PREFIX}[0-9a-z]{${RUN_ID_LENGTH}}(${BACK})?`;

/** Regular expression of the names of slots of ways back. */
export const WAY_BACKS = `^${PREFIX}[0-9a-z]{${RUN_ID_LENGTH}}${BACK}$`;

function runOf(name: string): RunId | undefined {
  return parseRunId(name.slice(PREFIX.length, PREFIX.length + RUN_ID_LENGTH));
}

const isOfWayBack = (name: string) => name.slice(PREFIX.length + RUN_ID_LENGTH).startsWith(BACK);

/** A replication slot of an online swap. It keeps WAL for as long as it exists. */
export interface OwnedSlot {
  readonly name: string;
  readonly run: RunId;
  /** It is of the way back, which outlives the run. */
  readonly wayBack: boolean;
  readonly database: string;
  readonly owning: 'alive' | 'dead';
  /** Bytes of WAL that the server keeps for it; null if it has lost some, or will with the next checkpoint. */
  readonly keptBytes: number | null;
}

const SLOTS = `
SELECT slot_name::text AS name, database::text,
       CASE WHEN wal_status IN ('reserved', 'extended')
            THEN pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::float8 END AS "keptBytes"
  FROM pg_replication_slots
 WHERE slot_name ~ '${PATTERN}$' AND slot_type = 'logical' AND plugin = 'pgoutput' ORDER BY slot_name`;

/** Lists the slots on this server that safemigrate made. */
export async function ownedSlots(session: Session): Promise<OwnedSlot[]> {
  const rows = await session.query<Omit<OwnedSlot, 'run' | 'owning' | 'wayBack'>>(SLOTS);
  const slots: OwnedSlot[] = [];
  for (const row of rows) {
    const run = runOf(row.name);
    if (!run) continue;
    const owning = (await runIsAlive(session, run, null)) ? 'alive' : 'dead';
    slots.push({ ...row, run, wayBack: isOfWayBack(row.name), owning });
  }
  return slots;
}

/** Statements that end a subscription, but not the slot that it reads, which may be of another server. */
export function endingStatements(subscription: string): string[] {
  const name = identifier(subscription);
  return [
    `ALTER SUBSCRIPTION ${name} DISABLE`,
    `ALTER SUBSCRIPTION ${name} SET (slot_name = NONE)`,
    `DROP SUBSCRIPTION ${name}`,
  ];
}

const ACTIVE = `SELECT active_pid AS pid FROM pg_replication_slots
  WHERE slot_name = $1 AND slot_type = 'logical' AND plugin = 'pgoutput'`;
const OBJECT_IN_USE = '55006';
const UNDEFINED_OBJECT = '42704';
const RELEASE_MS = 10_000;
const POLL_MS = 50;

/**
 * Drops the slot of a run, and terminates the process that reads it.
 * @param order.ownRun the run is our own, so its slot may go although its lock is held.
 * @param order.name default: the slot by which its clone follows the target.
 * @returns false if it does not exist.
 * @throws SafemigrateError `NOT_OURS` if the run is alive; `CLONE` if the slot stays in use.
 */
export async function dropOwnedSlot(
  session: Session,
  { run, ownRun, name = replicationName(run) }: { run: RunId; ownRun: boolean; name?: string },
): Promise<boolean> {
  const deadline = performance.now() + RELEASE_MS;
  for (;;) {
    const [slot] = await session.query<{ pid: number | null }>(ACTIVE, [name]);
    if (!slot) return false;
    if (!ownRun) await requireDead(session, run, name);
    if (slot.pid !== null) await session.query('SELECT pg_terminate_backend($1)', [slot.pid]);
    else if (await dropped(session, name)) return true;
    if (performance.now() > deadline)
      throw new SafemigrateError('CLONE', `The replication slot ${name} stays in use.`, {
        hint: `It keeps WAL until it is dropped: SELECT pg_drop_replication_slot('${name}');`,
      });
    await delay(POLL_MS);
  }
}

async function dropped(session: Session, name: string): Promise<boolean> {
  try {
    await session.query('SELECT pg_drop_replication_slot($1)', [name]);
    return true;
  } catch (error) {
    if (sqlstateOf(error) === UNDEFINED_OBJECT) return true;
    if (sqlstateOf(error) !== OBJECT_IN_USE) throw error;
    return false;
  }
}

async function requireDead(session: Session, run: RunId, name: string): Promise<void> {
  if (!(await runIsAlive(session, run, null))) return;
  throw new SafemigrateError('NOT_OURS', `${name} was not dropped: its run is alive.`);
}

/** Name of the second publication, which sends only new rows: a table without a replica identity could not be updated in the first. */
export function insertsName(publication: string): string {
  return `${publication}${INSERTS}`;
}

const INSERTS = '_inserts';

/** Returns the statement that drops the publications of a run's clone. */
export function droppingPublications(run: RunId): string {
  const name = replicationName(run);
  return `DROP PUBLICATION IF EXISTS ${identifier(name)}, ${identifier(insertsName(name))}`;
}

const PUBLICATIONS = `
SELECT pubname::text AS name FROM pg_publication WHERE pubname ~ '${PATTERN}(${INSERTS})?$' ORDER BY 1`;

/**
 * Drops the publications of dead runs, and of this run, if one is named. Those of a way back outlive their run.
 * @param inside a session in the database that was published.
 * @param wayBacks runs whose way back is in use, and one whose way back ends.
 * @returns the names of those that it dropped.
 */
export async function dropOwnedPublications(
  inside: Session,
  ownRun: RunId | null,
  wayBacks: { readonly inUse?: ReadonlySet<RunId>; readonly ending?: RunId } = {},
): Promise<string[]> {
  const names: string[] = [];
  for (const { name } of await inside.query<{ name: string }>(PUBLICATIONS)) {
    const run = runOf(name);
    if (!run) continue;
    const own = isOfWayBack(name) ? wayBacks.ending : ownRun;
    if (run !== own && (await runIsAlive(inside, run, null))) continue;
    if (run !== own && isOfWayBack(name) && wayBacks.inUse?.has(run)) continue;
    await inside.query(`DROP PUBLICATION IF EXISTS ${identifier(name)}`);
    names.push(name);
  }
  return names;
}
