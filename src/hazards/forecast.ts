import { type Holder, oldest, type Standby, type TargetTraffic } from '../database/traffic.ts';
import { formatDuration } from '../format.ts';
import type { Unmeasured } from '../measured.ts';
import type { CatalogueFacts, DiskSpace } from '../model/hazard-facts.ts';
import type {
  Caveat,
  DataSection,
  ForecastSection,
  SchemaSection,
  StatementSection,
} from '../model/report.ts';
import { conflictsOf, LOCK_MODES, type LockMode, lockModeOf } from '../postgres/lock-modes.ts';
import { type HeldLock, longestLocks } from './held-locks.ts';
import { effectiveRates, type Rates, SHORT_SAMPLE_MS } from './rates.ts';
import { waitingStatements } from './waiting.ts';

export interface ForecastInput {
  readonly traffic: TargetTraffic | Unmeasured;
  readonly statements: readonly StatementSection[];
  readonly schema: Pick<SchemaSection, 'changes'> | null;
  readonly data: DataSection | null;
  readonly catalogue: Pick<CatalogueFacts, 'renamed'>;
  /** Sizes on the target, with indexes and TOAST, of the relations that the command rewrites; null if they could not be read. */
  readonly rewrittenBytes: ReadonlyMap<string, number> | null;
  /** Space on the target's file system before the clone was made; null if that cannot be seen. */
  readonly diskSpace: DiskSpace | null;
  /** Bytes that a clone by snapshots does not share with the target after the command; null for other clones. */
  readonly unsharedBytes: number | null;
  /** The clone could be made only while no other session was connected to the target. */
  readonly targetWasEmptied: boolean;
  /** The traffic is that of a profile, taken at this time. */
  readonly profiledAt?: string | null;
}

/**
 * Estimates what the measured locks, WAL and files would mean on the target, from its own statistics. The section contains its
 * inputs; an unknown value is null, with the reason in the caveats.
 */
export function forecast(measured: ForecastInput) {
  const { traffic, data } = measured;
  if ('unmeasured' in traffic)
    return { section: null, rates: null, caveats: [unmeasured('forecast', traffic.unmeasured)] };
  const profiledAt = measured.profiledAt ?? null;
  const rates =
    profiledAt === null
      ? effectiveRates(traffic, measured.targetWasEmptied)
      : { ...traffic, averagedMs: null };
  const walBytes = data?.walBytes ?? null;
  const holders = byRelation(traffic.holders);
  // Locks have the names from after the command, the target those from before.
  const former = new Map([...measured.catalogue.renamed].map(([before, after]) => [after, before]));
  const all = longestLocks(measured.statements, measured.schema)
    .filter(({ blocks }) => blocks.includes('reads') || blocks.includes('writes'))
    .map((lock) => {
      const name = former.get(lock.relation) ?? lock.relation;
      return lockForecast(lock, traffic, rates, { name, holders: holders.get(name) ?? [] });
    });
  const locks = oncePerWait(all, measured.statements, traffic.tableOfIndex);
  const section: ForecastSection = {
    ...(profiledAt === null ? {} : { profiledAt }),
    sampledMs: traffic.sampledMs,
    averagedMs: rates.averagedMs,
    transactionsPerSecond: rates.transactionsPerSecond,
    sessions: traffic.sessions,
    oldestTransaction: traffic.oldestTransaction,
    preparedTransactions: traffic.preparedTransactions,
    ...(traffic.lockWaits ? { lockWaits: traffic.lockWaits } : {}),
    locks,
    wal: {
      writtenBytes: walBytes,
      standbys: traffic.standbys?.map((standby) => behind(standby, walBytes)) ?? null,
      inactiveSlots: [...traffic.inactiveSlots],
    },
    disk: diskForecast(measured),
  };
  return { section, rates, caveats: caveatsOf(measured, traffic, section) };
}

type LockForecast = ForecastSection['locks'][number];

/**
 * Keeps of the locks that one transaction has on a table and its indexes the one that most statements would wait for: who waits
 * for one of them waits no second time for the others. The oldest transaction in the way of any of them is in its way.
 */
function oncePerWait(
  locks: readonly LockForecast[],
  statements: readonly StatementSection[],
  tableOfIndex: ReadonlyMap<string, string>,
): LockForecast[] {
  const transactions = new Map(statements.map(({ index, transaction }) => [index, transaction]));
  const longest = new Map<string, LockForecast>();
  for (const lock of locks) {
    const table = tableOfIndex.get(lock.relation) ?? lock.relation;
    const key = JSON.stringify([table, transactions.get(lock.statement)]);
    const known = longest.get(key);
    const waitsFor = known
      ? oldest([known.waitsFor, lock.waitsFor].filter((each) => each !== null))
      : lock.waitsFor;
    const kept = known && weightOf(known, table) >= weightOf(lock, table) ? known : lock;
    longest.set(key, { ...kept, waitsFor: waitsFor ?? null });
  }
  return [...longest.values()];
}

/** Weighs a lock by its queue; with the same queue, one on the table itself says more. */
function weightOf({ queued, blocks, relation }: LockForecast, table: string): number {
  return (queued ?? -1) * 100 + blocks.length * 2 + (relation === table ? 1 : 0);
}

function byRelation(holders: readonly Holder[]): Map<string, Holder[]> {
  const found = new Map<string, Holder[]>();
  for (const holder of holders) {
    const known = found.get(holder.relation);
    if (known) known.push(holder);
    else found.set(holder.relation, [holder]);
  }
  return found;
}

function lockForecast(
  lock: HeldLock,
  traffic: TargetTraffic,
  { relations, transactionsPerSecond }: Rates,
  { name, holders }: { readonly name: string; readonly holders: readonly Holder[] },
): LockForecast {
  const { relation, heldMs } = lock;
  const table = traffic.tableOfIndex.get(name) ?? name;
  const rates = relations.get(table);
  const queued = waitingStatements(lock, rates ?? null, transactionsPerSecond);
  const { open, max, reserved } = traffic.sessions;
  return {
    relation,
    mode: lock.mode,
    statement: lock.statement,
    heldMs,
    ...(lock.atProductionSize && { atProductionSize: lock.atProductionSize }),
    blocks: [...lock.blocks],
    readsPerSecond: rates?.readsPerSecond ?? null,
    writesPerSecond: rates?.writesPerSecond ?? null,
    ratesFrom: rates ? (rates === traffic.relations.get(table) ? 'sample' : 'average') : null,
    queued,
    sessionsRunOut: queued === null ? null : queued > 0 && open + queued >= max - reserved,
    waitsFor: inTheWay(lock, holders),
  };
}

function inTheWay(
  { mode }: HeldLock,
  holders: readonly Holder[],
): ForecastSection['locks'][number]['waitsFor'] {
  const wanted = LOCK_MODES.find((each) => each === mode);
  if (!wanted) return null;
  const conflicting: readonly LockMode[] = conflictsOf(wanted);
  const found = oldest(
    holders.filter((holder) => {
      const held = lockModeOf(holder.mode);
      return held !== undefined && conflicting.includes(held);
    }),
  );
  if (!found) return null;
  const { ageMs, application, state } = found;
  return { ageMs, application, state, mode: lockModeOf(found.mode) ?? found.mode };
}

function behind(
  standby: Standby,
  walBytes: number | null,
): NonNullable<ForecastSection['wal']['standbys']>[number] {
  const known = standby.lagBytes !== null && walBytes !== null;
  return { ...standby, behindBytes: known ? (standby.lagBytes ?? 0) + walBytes : null };
}

function diskForecast(measured: ForecastInput): ForecastSection['disk'] {
  const { diskSpace, unsharedBytes } = measured;
  const { freeBytes = null, compressRatio = 1 } = diskSpace ?? {};
  return {
    neededBytes: neededBytes(measured, compressRatio),
    freeBytes,
    ...(compressRatio > 1 ? { compressRatio } : {}),
    ...(unsharedBytes === null ? {} : { unsharedBytes }),
  };
}

/**
 * Bytes needed at the peak: the old files are kept until the commit, and the WAL at least until the next checkpoint. How well that
 * compresses is not known.
 */
export function neededBytes(
  { data, rewrittenBytes }: Pick<ForecastInput, 'data' | 'rewrittenBytes'>,
  compressRatio = 1,
): number | null {
  if (data === null || data.sizeDeltaBytes === null || data.walBytes === null || rewrittenBytes === null)
    return null;
  // The target does not know the new name of a renamed table; its size on the clone is used, without indexes.
  const rewritten = data.tables
    .filter((table) => table.rewritten)
    .reduce((sum, { relation, bytesBefore }) => sum + (rewrittenBytes.get(relation) ?? bytesBefore ?? 0), 0);
  return Math.round((rewritten + Math.max(0, data.sizeDeltaBytes)) / compressRatio) + data.walBytes;
}

function caveatsOf(measured: ForecastInput, traffic: TargetTraffic, section: ForecastSection): Caveat[] {
  const caveats: Caveat[] = [];
  const seconds = (traffic.sampledMs / 1000).toFixed(1);
  const instead =
    section.averagedMs === null
      ? `rates may be too low (${traffic.average ? 'the statistics cover less than a day, so their average means nothing either' : 'it is not known since when the statistics count, so they have no average'})`
      : `each rate is the larger one of the sample and of the average over the ${formatDuration(section.averagedMs)} that the statistics cover`;
  if (traffic.sampledMs < SHORT_SAMPLE_MS && !measured.profiledAt)
    caveats.push(
      estimate(
        'forecast.locks',
        `the run took ${seconds} s, and statistics are up to a second late: ${instead}`,
      ),
    );
  if (measured.targetWasEmptied)
    caveats.push(
      estimate(
        'forecast.locks',
        `sessions could not connect to the target while the clone was made, in the same ${seconds} s in which its traffic was sampled: ${instead}`,
      ),
    );
  if (section.locks.some(({ readsPerSecond }) => readsPerSecond === null))
    caveats.push(
      unmeasured(
        'forecast.locks[].queued',
        `the ${measured.profiledAt ? 'profile' : 'target'} has no statistics for some of the locked relations`,
      ),
    );
  if (traffic.hiddenSessions > 0)
    for (const path of ['forecast.oldestTransaction', 'forecast.locks[].waitsFor'])
      caveats.push(
        unmeasured(
          path,
          `the role cannot see the details of ${traffic.hiddenSessions} sessions: GRANT pg_read_all_stats to it`,
        ),
      );
  if (section.wal.standbys === null)
    caveats.push(
      unmeasured('forecast.wal.standbys', 'the role cannot see them: GRANT pg_read_all_stats to it'),
    );
  if (section.disk.neededBytes === null)
    caveats.push(unmeasured('forecast.disk.neededBytes', 'sizes or the WAL could not be read'));
  if (section.disk.freeBytes === null)
    caveats.push(
      unmeasured(
        'forecast.disk.freeBytes',
        measured.profiledAt
          ? 'the profile does not have it'
          : "it is visible only on the server's own machine, to a member of pg_read_all_settings and pg_read_server_files",
      ),
    );
  return caveats;
}

function estimate(path: string, reason: string): Caveat {
  return { path, kind: 'estimate', reason };
}

function unmeasured(path: string, reason: string): Caveat {
  return { path, kind: 'unmeasured', reason };
}
