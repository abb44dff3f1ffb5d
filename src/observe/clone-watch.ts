import { setTimeout as delay } from 'node:timers/promises';
import type { Clone } from '../clone/method.ts';
import { messageOf, SafemigrateError } from '../errors.ts';
import type { DataSection, Limit, SchemaSection } from '../report/model.ts';
import type { SchemaWatch } from '../schema/watch.ts';
import { openSession } from '../target/connect.ts';
import type { Audit, Session } from '../target/session.ts';
import type { RunId } from '../upkeep/run-id.ts';
import { compareRelations, type RelationsData, readRelations, rowsGone } from './relations.ts';

export interface CloneObservations {
  readonly schema: SchemaSection | null;
  readonly data: DataSection | null;
  readonly sizeBytes: number | null;
  readonly limits: Limit[];
}

interface Snapshot {
  readonly relations: RelationsData;
  readonly walPosition: string;
  readonly arrivals: number;
}

/** What the clone held before the command, and what the command made of it. */
export interface CloneWatch {
  /** Reads schema and data. Nothing of ours stays connected to the clone afterwards. */
  before(): Promise<void>;
  /** Somebody connected since `before`. */
  reached(): Promise<boolean>;
  /**
   * Compares. What could not be read is null, and the limits say why; so is everything once the interrupt has come,
   * since whoever interrupts does not want to wait for it.
   */
  after(interrupt?: AbortSignal): Promise<CloneObservations>;
}

const POSITION = `
SELECT pg_current_wal_insert_lsn()::text AS position,
       (SELECT coalesce(sum(sessions), 0)::int8 FROM pg_stat_database WHERE datid = $1) AS arrivals`;
/** Sessions are counted when their backends get to it; in version 14 a collector tells, every half second. */
const COUNTED_WITHIN_MS = 1_500;
const WAL_SINCE = 'SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), $1)::int8 AS bytes';

/** The clone is watched from the control connection while the command runs: no session of ours is in the way there. */
export function watchClone(
  clone: Clone,
  options: { control: Session; run: RunId; schema: SchemaWatch; audit: Audit; signal: AbortSignal },
): CloneWatch {
  const { control, run, schema, audit, signal } = options;
  const cloneOid = 'oid' in clone.mark.at ? clone.mark.at.oid : 0;
  signal.addEventListener('abort', () => void schema.close(), { once: true });
  let first: Snapshot | undefined;

  const readData = async (before?: RelationsData) => {
    const session = await openSession(clone.connect, {
      purpose: 'clone',
      run,
      audit,
      signal,
      readOnly: true,
    });
    try {
      return await readRelations(session, before);
    } finally {
      await session.close();
    }
  };
  const position = async () => {
    const [row] = await control.query<{ position: string; arrivals: string }>(POSITION, [cloneOid]);
    return { walPosition: row?.position ?? '0/0', arrivals: Number(row?.arrivals ?? 0) };
  };

  return {
    async before() {
      const [relations] = await Promise.all([readData(), schema.before(clone.connect, run)]);
      first = { relations, ...(await position()) };
    },
    async reached() {
      if (first === undefined) return false;
      const deadline = performance.now() + COUNTED_WITHIN_MS;
      while ((await position()).arrivals <= first.arrivals) {
        if (performance.now() > deadline) return false;
        await delay(50);
      }
      return true;
    },
    async after(interrupt) {
      if (interrupt?.aborted) return NOT_OBSERVED;
      try {
        return await compare();
      } catch (error) {
        if (interrupt?.aborted) return NOT_OBSERVED;
        throw error;
      }
    },
  };

  async function compare(): Promise<CloneObservations> {
    const then = first;
    if (!then) throw new Error('the clone was not read before the command');
    const limits: Limit[] = [];
    const [wal] = await control.query<{ bytes: string }>(WAL_SINCE, [then.walPosition]);
    const [compared, relations] = await Promise.all([
      measured(limits, 'schema', () => schema.after()),
      measured(limits, 'data', () => readData(then.relations)),
    ]);
    const bytes = Number(wal?.bytes ?? 0);
    const data = relations && compareRelations(then.relations, relations, { bytes, shared: true });
    limits.push(...(compared?.limits ?? []), ...(data?.limits ?? []));
    return {
      schema: compared && withLostRows(compared.section, then.relations, relations),
      data: data?.section ?? null,
      sizeBytes: relations?.databaseBytes ?? null,
      limits,
    };
  }
}

const NOT_OBSERVED: CloneObservations = {
  schema: null,
  data: null,
  sizeBytes: null,
  limits: ['schema', 'data', 'clone.sizeBytes'].map((path) => ({
    path,
    kind: 'unmeasured',
    reason: 'the run was interrupted before it was read',
  })),
};

/** The way back restores structure; rows that the command deleted it cannot bring back. */
function withLostRows(
  section: SchemaSection,
  before: RelationsData,
  after: RelationsData | null,
): SchemaSection {
  if (!after) return section;
  return { ...section, rollbackLoses: [...section.rollbackLoses, ...rowsGone(before, after)] };
}

/** A part that cannot be measured is not the end of the run: it is null, and the report says why. */
async function measured<T>(limits: Limit[], path: string, read: () => Promise<T>): Promise<T | null> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof SafemigrateError && ['LOST', 'INTERRUPTED'].includes(error.code)) throw error;
    limits.push({ path, kind: 'unmeasured', reason: messageOf(error) });
    return null;
  }
}
