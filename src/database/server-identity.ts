import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import type { Session } from '../postgres/connection/session.ts';

/** Identifies a server, its timeline and its start: they change if another server takes over. */
export interface ServerIdentity {
  /** null if the role may not read it. */
  readonly systemIdentifier: string | null;
  /** Timeline of the WAL that is being written; null on a standby. */
  readonly timeline: number | null;
  /** Start time of its postmaster, in seconds since 1970. */
  readonly startedAt: string;
}

const SYSTEM = 'SELECT system_identifier::pg_catalog.text AS id FROM pg_catalog.pg_control_system()';
// pg_control_checkpoint() has the timeline of the last checkpoint, and a promotion may come long before the next one.
// The privilege is checked first, since a refused statement would appear in the server's log.
const WAL = `SELECT CASE WHEN NOT pg_catalog.pg_is_in_recovery()
    THEN pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()), 8) END AS timeline,
  pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time())::pg_catalog.text AS started,
  pg_catalog.has_function_privilege('pg_catalog.pg_control_system()', 'EXECUTE') AS may`;

export async function readServerIdentity(session: Session): Promise<ServerIdentity> {
  const [wal] = await session.query<{ timeline: string | null; started: string; may: boolean }>(WAL);
  const [system] = wal?.may ? await session.query<{ id: string }>(SYSTEM) : [];
  const timeline = wal?.timeline ?? null;
  return {
    systemIdentifier: system?.id ?? null,
    timeline: timeline === null ? null : Number.parseInt(timeline, 16),
    startedAt: wal?.started ?? '',
  };
}

/** Describes how the server changed between the two; undefined if it is the same. */
export function movedBetween(before: ServerIdentity, after: ServerIdentity): string | undefined {
  if (after.timeline === null) return 'the server is a standby now';
  if (before.systemIdentifier !== after.systemIdentifier)
    return `another server answers now (system identifier ${after.systemIdentifier})`;
  if (before.timeline !== after.timeline)
    return `another server took over in the meantime (timeline ${before.timeline} became ${after.timeline})`;
  return undefined;
}

/**
 * Like movedBetween(), but if the system identifier cannot be read, a restart counts as a change, too: then only the start time
 * identifies a server.
 */
export function changedBetween(before: ServerIdentity, after: ServerIdentity): string | undefined {
  const moved = movedBetween(before, after);
  if (moved !== undefined || before.systemIdentifier !== null) return moved;
  return before.startedAt === after.startedAt
    ? undefined
    : 'the server was restarted in the meantime, or another one answers (the role may not read the system identifier)';
}

/** Says whether the servers are of different database systems, so that neither is a replica of the other. */
export function isAnotherSystem(before: ServerIdentity, after: ServerIdentity): boolean {
  const [first, second] = [before.systemIdentifier, after.systemIdentifier];
  return first !== null && second !== null && first !== second;
}

/** Selects, among all named hosts, the one that accepts writes: after a failover, the new primary. */
export function onPrimary(settings: ConnectionSettings): ConnectionSettings {
  return { ...settings, parameters: { ...settings.parameters, target_session_attrs: 'read-write' } };
}
