import {
  formatBytes,
  formatCount,
  formatDuration,
  formatEstimate,
  formatTime,
  listed,
  memoryWords,
  plural,
} from '../format.ts';
import { conversionCounts } from '../hazards/evidence.ts';
import { isReplaced } from '../model/converted-column.ts';
import type { LockWaits } from '../model/lock-waits.ts';
import type {
  ConvertedColumn,
  DataSection,
  ForecastSection,
  FurtherRunSection,
  Report,
  SchemaChange,
  StatementSection,
} from '../model/report.ts';

/** Sentences that all renderers for people share. */

type Lost = DataSection['lost'][number];
type LockForecast = ForecastSection['locks'][number];
type OpenTransaction = NonNullable<ForecastSection['oldestTransaction']>;

/** `drops column public.users.legacy_email: 1,203,442 of 1,250,000 rows had a value`. */
export function lostWords(lost: Lost): string {
  const { object, kind, what, rows, rowsWithValue, exact, copy } = lost;
  const count = (number: number) => formatEstimate(number, exact);
  const rowsWord = rows === 1 ? 'row' : 'rows';
  if (what === 'deleted')
    return rowsWithValue === null
      ? `deletes rows of ${object}`
      : `deletes ${count(rowsWithValue)}${rows === null ? '' : ` of ${count(rows)}`} ${rows === null && rowsWithValue === 1 ? 'row' : 'rows'} of ${object}`;
  if (what === 'narrowed' && rowsWithValue !== null && wereCounted(lost))
    return `changes the type of column ${object}: ${cutWords(lost)} of ${count(rowsWithValue)}${sampleWords(lost)}`;
  if (what === 'narrowed' && lost.rowsCompared)
    return `changes the type of column ${object}: none of ${plural(lost.rowsCompared, 'value')} is cut or rounded, ${boundWords(lost.rowsCompared)}${sampleWords(lost)}`;
  const did = `${what === 'dropped' ? 'drops' : 'changes the type of'} ${kind} ${object}${what === 'narrowed' ? ', whose values may be cut or changed' : ''}`;
  if (isUnknownHere(lost)) return `${did}: not known, no rows here`;
  if (rowsWithValue === null || rows === null) return `${did}: the amount of data is unknown`;
  if (kind === 'table') return `${did}: it held ${count(rows)} ${rowsWord}`;
  const lacking = copy
    ? `; ${copy.column} lacks ${formatCount(copy.missing)} of ${plural(copy.values, 'value')} that were looked up`
    : '';
  return `${did}: ${count(rowsWithValue)} of ${count(rows)} ${rowsWord} had a value${lacking}`;
}

/**
 * `converts column public.users.tax_id: 500 of 500 values become NULL`; of a sample, what that says of all values: none in n leaves
 * room for three in n.
 */
export function convertedWords(column: ConvertedColumn, verb: 'converts' | 'overwrites'): string {
  const { object, rows, compared, values, changed, exact } = column;
  const did = `${verb} column ${object}`;
  if (compared === 0) return `${did}: its values could not be compared, and may be lost`;
  const of = `of ${plural(values, 'value')}`;
  const counts = conversionCounts(column);
  const bound = values === 0 ? '' : `, ${boundWords(values)}`;
  const none =
    changed === 0
      ? `none ${of} is changed${exact ? '' : bound}`
      : `none ${of} becomes NULL or equal to another one, but the values may have changed`;
  const sample = exact
    ? ''
    : ` (a sample${rows === null ? '' : ` of ${formatEstimate(rows, false)} ${rows === 1 ? 'row' : 'rows'}`})`;
  return `${did}: ${counts.length === 0 ? none : listed(counts)}${sample}`;
}

/** The rule of three: none in n leaves room for three in n. */
function boundWords(compared: number): string {
  return `at most about ${Number((300 / compared).toPrecision(1))} % of all are`;
}

function sampleWords({ rows, rowsCompared }: Lost): string {
  if (rowsCompared === undefined) return '';
  return rows === null
    ? ' (a sample)'
    : ` (a sample: ${formatCount(rowsCompared)} of ${formatEstimate(rows, false)} ${rows === 1 ? 'row' : 'rows'})`;
}

/** `12 values cut or rounded`, or that the values were not counted. */
function cutWords({ rowsChanged, exact }: Lost): string {
  const count = rowsChanged ?? null;
  return count === null
    ? 'values may be cut or changed'
    : `${formatEstimate(count, exact)} ${count === 1 ? 'value' : 'values'} cut or rounded`;
}

/** Reports of earlier versions have no such count. */
function wereCounted({ rowsChanged }: Lost): boolean {
  return (rowsChanged ?? null) !== null;
}

/** Tells if nothing is known of a loss, since the table has no rows here. */
export function isUnknownHere({ rows, rowsWithValue }: Pick<Lost, 'rows' | 'rowsWithValue'>): boolean {
  return rows === 0 && rowsWithValue === null;
}

/** Changes that destroy data, and changes that may: those of a column's type if its values were not counted. */
export function losingChanges({ schema, data }: Pick<Report, 'schema' | 'data'>): {
  readonly certain: SchemaChange[];
  readonly possible: SchemaChange[];
} {
  const losing = (schema?.changes ?? []).filter(({ dataLoss }) => dataLoss);
  const unknown = new Set((data?.lost ?? []).filter(isUnknownHere).map(({ object }) => object));
  const isCertain = ({ verb, kind, object }: SchemaChange) =>
    (verb !== 'alter' && !unknown.has(object)) ||
    kind !== 'column' ||
    (data?.lost ?? []).some(
      (lost) => lost.object === object && lost.what === 'narrowed' && wereCounted(lost),
    ) ||
    (data?.converted ?? []).some((column) => column.object === object && isReplaced(column));
  return { certain: losing.filter(isCertain), possible: losing.filter((change) => !isCertain(change)) };
}

/** The basis of a forecast: `from 14.2 s of the target's statistics: 230 transactions/s, 41 of 97 sessions open`. */
export function basisWords({
  profiledAt,
  sampledMs,
  averagedMs,
  transactionsPerSecond,
  sessions,
}: ForecastSection): string {
  const rate = transactionsPerSecond === null ? '' : `${rateWords(transactionsPerSecond, 'transactions')}, `;
  const { open, max, reserved } = sessions;
  // Reports of earlier versions have none.
  const average = averagedMs ? ` and their average over ${formatDuration(averagedMs)}` : '';
  const source =
    profiledAt === undefined
      ? `from ${formatDuration(sampledMs)} of the target's statistics${average}`
      : `from the profile of ${formatTime(profiledAt)}`;
  return `${source}: ${rate}` + `${formatCount(open)} of ${formatCount(max - reserved)} sessions open`;
}

/** The effects of a lock on other sessions; none if no session would notice it. `outage`: no further session could connect. */
export function lockEffects(
  lock: LockForecast,
  { sessions }: ForecastSection,
): { severity: 'outage' | 'delay'; words: string }[] {
  const { queued, readsPerSecond, writesPerSecond, sessionsRunOut, waitsFor } = lock;
  const effects: ReturnType<typeof lockEffects> = [];
  if (queued !== null && queued > 0)
    effects.push({
      severity: 'delay',
      words:
        `about ${plural(queued, 'statement')} would wait for it (${rateWords(readsPerSecond ?? 0, 'reads')}, ` +
        `${rateWords(writesPerSecond ?? 0, 'rows written')})`,
    });
  if (sessionsRunOut)
    effects.push({
      severity: 'outage',
      words:
        `CONNECTIONS WOULD RUN OUT: ${formatCount(sessions.open)} open and ${formatCount(queued ?? 0)} waiting, ` +
        `of ${formatCount(sessions.max - sessions.reserved)}`,
    });
  if (waitsFor)
    effects.push({
      severity: 'delay',
      words: `the statement would first wait for ${transactionWords(waitsFor)}, and everybody else would queue behind it`,
    });
  return effects;
}

/** `"nightly report" (idle in transaction), open for 12 min 0 s now`. */
export function transactionWords({ application, state, ageMs }: OpenTransaction): string {
  const who = application ? `"${application}"` : 'a transaction';
  return `${who}${state === null ? '' : ` (${state})`}, open for ${formatDuration(ageMs)} now`;
}

/** The effects besides waiting: standbys, replication slots, disk, old transactions. */
export function resourceWords({
  wal,
  disk,
  preparedTransactions,
  oldestTransaction,
}: ForecastSection): string[] {
  const { count, oldestMs } = preparedTransactions;
  return [
    ...(wal.standbys ?? [])
      .filter(({ behindBytes }) => behindBytes !== null && behindBytes > 0)
      .map(
        ({ name, synchronous, behindBytes, lagBytes }) =>
          `the ${synchronous ? 'synchronous ' : ''}standby ${name} would fall up to ${formatBytes(behindBytes ?? 0)} behind ` +
          `(${formatBytes(lagBytes ?? 0)} now)`,
      ),
    ...wal.inactiveSlots.map(
      (slot) => `the replication slot ${slot} is inactive: the server keeps all WAL for it`,
    ),
    ...(disk.neededBytes === null || disk.neededBytes === 0
      ? []
      : [
          `up to ${formatBytes(disk.neededBytes)} of disk space needed at the peak` +
            (disk.compressRatio === undefined
              ? ''
              : ` (compressed ${disk.compressRatio}-fold, as the data is now)`) +
            (disk.freeBytes === null ? '' : `, ${formatBytes(disk.freeBytes)} free`) +
            (disk.unsharedBytes
              ? `; up to ${formatBytes(disk.unsharedBytes)} are not shared with snapshots`
              : ''),
        ]),
    ...(count === 0
      ? []
      : [
          `${plural(count, 'prepared transaction')} (the oldest is ${formatDuration(oldestMs ?? 0)} old): their locks ` +
            'are held until they are committed or rolled back',
        ]),
    ...(oldestTransaction === null || oldestTransaction.ageMs < LONG_MS
      ? []
      : [`the oldest transaction: ${transactionWords(oldestTransaction)}`]),
  ];
}

/** `the clone's server counted 6 waits for locks of more than 1.0 s in 8.2 s (relation: 5, tuple: 1), 5.8 s in all`; nothing if there was none. */
export function lockWaitWords(counted: LockWaits | undefined, server: string): string[] {
  const { longerThanMs = 0, overMs = 0, kinds = [] } = counted ?? {};
  const [waits, waitedMs] = [sumOf(kinds, 'waits'), sumOf(kinds, 'waitedMs')];
  if (waits === 0) return [];
  const each = kinds.map(({ kind, waits: of }) => `${kind}: ${formatCount(of)}`).join(', ');
  return [
    `${server} counted ${plural(waits, 'wait')} for locks of more than ${formatDuration(longerThanMs)} ` +
      `in ${formatDuration(overMs)} (${each}), ${formatDuration(waitedMs)} in all`,
  ];
}

function sumOf(kinds: LockWaits['kinds'], what: 'waits' | 'waitedMs'): number {
  return kinds.reduce((sum, each) => sum + each[what], 0);
}

const LONG_MS = 60_000;

/** With one decimal below 10. */
function rateWords(perSecond: number, what: string): string {
  const rate = perSecond < 9.95 ? Math.round(perSecond * 10) / 10 : Math.round(perSecond);
  return `${Number.isInteger(rate) ? formatCount(rate) : rate} ${what}/s`;
}

/** The changes of the target that a person must look at: those by the command, or by an unknown author. */
export function alarmingChanges({ changes }: Report['target']): Report['target']['changes'] {
  return changes.filter(({ madeBy }) => madeBy === 'command' || madeBy === 'unknown');
}

/** Why it is not proved that the target is unchanged; undefined if it is proved, if it was changed, or if it is a dump, restored for this run. */
export function unprovedWords({ target, caveats }: Pick<Report, 'target' | 'caveats'>): string | undefined {
  // Reports of earlier versions do not have it, and give the reason in the caveats all the same.
  if (typeof target.unchanged === 'boolean' || target.origin === 'dump') return undefined;
  const reasons = caveats.filter(({ path }) => path === 'target.unchanged' || path === 'target.changes');
  return reasons.length === 0 ? undefined : reasons.map(({ reason }) => reason).join('; ');
}

/** Says that the server's version was not tried with this program; undefined if it was. */
export function untriedWords({ caveats }: Pick<Report, 'caveats'>): string | undefined {
  return caveats.find(({ path }) => path === 'target.serverVersion')?.reason;
}

/** Why the rows of statements are not known; undefined if they are. */
export function doubtedRowsWords({ caveats }: Pick<Report, 'caveats'>): string | undefined {
  return caveats.find(({ path }) => path === 'statements[].rows')?.reason;
}

/** Why times of statements and locks are not known; undefined if they are. */
export function doubtedTimes({ caveats }: Pick<Report, 'caveats'>): string | undefined {
  return caveats.find(({ path, kind }) => path === 'statements[].durationMs' && kind === 'unmeasured')
    ?.reason;
}

/** By whose sizes the run was judged, if that needs to be said: the end of a sentence. */
export function sizesWords({ profile, caveats }: Pick<Report, 'profile' | 'caveats'>): string | undefined {
  if (!profile) return caveats.find(({ path }) => path === 'hazards[].severity')?.reason;
  const { database, takenAt, ageMs, signed, missing } = profile;
  const others =
    missing.length === 0
      ? ''
      : `; not in it, so judged by their size here: ${listed(missing, { atMost: 3 })}`;
  return (
    `judged at production's size, by the profile of ${database} from ${formatTime(takenAt)} ` +
    `(${formatDuration(ageMs)} old${signed ? '' : ', not signed'})${others}`
  );
}

/** `succeeded in 2.2 s`: how one run of the command ended. */
export function commandWords({
  exitCode,
  signal,
  timedOut,
  durationMs,
  endedForMemory,
}: Pick<FurtherRunSection, 'exitCode' | 'signal' | 'timedOut' | 'durationMs'> &
  Parameters<typeof memoryWords>[0]): string {
  const after = `after ${formatDuration(durationMs)}`;
  if (timedOut) return `stopped by the time limit ${after}`;
  if (signal !== null) return `terminated by ${signal} ${after}${memoryWords({ endedForMemory })}`;
  if (exitCode === null) return `ended without an exit code ${after}`;
  return exitCode === 0
    ? `succeeded in ${formatDuration(durationMs)}`
    : `failed with exit code ${exitCode} ${after}${memoryWords({ endedForMemory })}`;
}

/** The same with a verb that can follow `the command`. */
export function commandDid(command: Parameters<typeof commandWords>[0]): string {
  const { timedOut, signal } = command;
  return `${timedOut || signal !== null ? 'was ' : ''}${commandWords(command)}`;
}

/** `sent 98,000 times in 3 transactions, mean 0.2 ms, 99 % within 0.4 ms, at most 12 ms`. */
export function repetitionWords({
  count,
  transactions,
  alike,
  meanMs,
  p99Ms,
  maxMs,
}: NonNullable<StatementSection['repeated']>): string {
  const times = `sent ${formatCount(count)} times${alike ? '' : ' with various texts'}`;
  const within = transactions === 1 ? '' : ` in ${plural(transactions, 'transaction')}`;
  return `${times}${within}, mean ${formatDuration(meanMs)}, 99 % within ${formatDuration(p99Ms)}, at most ${formatDuration(maxMs)}`;
}
