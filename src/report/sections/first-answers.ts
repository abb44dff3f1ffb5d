import { formatDuration, listed, plural } from '../../format.ts';
import { timeWords } from '../../hazards/evidence.ts';
import { type HeldLock, longestLocks } from '../../hazards/held-locks.ts';
import type { Report } from '../../model/report.ts';
import { commandDid, convertedWords, losingChanges, lostWords } from '../phrases.ts';
import { loadHeadline } from './load-view.ts';

// The first questions of a person who decides about a migration, with an answer in a sentence each.

const LISTED = 3;

/** The sessions that would wait, and for how long. */
export function usersWords({ load, statements, schema, forecast }: Report): string {
  if (load) return `under load, ${loadHeadline(load)}`;
  if (statements.every(({ locks }) => locks === null)) return 'not known: no locks were read';
  const blocking = longestLocks(statements, schema).filter(
    ({ blocks }) => blocks.includes('reads') || blocks.includes('writes'),
  );
  if (blocking.length === 0) return 'no lock blocks reads or writes of a table';
  return `${blockedWords(blocking)}${trafficWords(forecast)}`;
}

/** `reads and writes wait: public.orders for 1.8 s, public.customers for 60 ms`. */
function blockedWords(locks: readonly HeldLock[]): string {
  const longestOf = (chosen: readonly HeldLock[]) => {
    const sorted = chosen.toSorted((one, other) => expectedMs(other) - expectedMs(one));
    const seen = new Set<string>();
    return sorted.filter(({ relation }) => !seen.has(relation) && seen.add(relation));
  };
  const reads = longestOf(locks.filter(({ blocks }) => blocks.includes('reads')));
  // Writes to a relation may wait for longer than reads of it.
  const readMs = new Map(reads.map((lock) => [lock.relation, expectedMs(lock)]));
  const writes = longestOf(locks.filter(({ blocks }) => !blocks.includes('reads'))).filter(
    (lock) => expectedMs(lock) > (readMs.get(lock.relation) ?? -1),
  );
  return [
    ...(reads.length > 0 ? [`reads and writes wait: ${relationsWords(reads)}`] : []),
    ...(writes.length > 0 ? [`writes wait: ${relationsWords(writes)}`] : []),
  ].join('; ');
}

function relationsWords(locks: readonly HeldLock[]): string {
  const words = locks.map(({ relation, heldMs, atProductionSize }) =>
    heldMs === null ? relation : `${relation} for ${timeWords(heldMs, atProductionSize)}`,
  );
  return listed(words, { atMost: LISTED });
}

function expectedMs({ heldMs, atProductionSize }: HeldLock): number {
  return atProductionSize?.ms ?? heldMs ?? 0;
}

function trafficWords(forecast: Report['forecast']): string {
  if (forecast === null) return '';
  const most = forecast.locks.reduce((highest, { queued }) => Math.max(highest, queued ?? 0), 0);
  if (forecast.locks.some(({ sessionsRunOut }) => sessionsRunOut)) return '; CONNECTIONS WOULD RUN OUT';
  return most < 1 ? ' (no traffic was seen)' : `; about ${plural(most, 'statement')} at its traffic`;
}

/** Losses, or that there is none, and how many rows were changed. */
export function dataWords({ data, schema, command }: Report): string {
  if (data === null || schema === null)
    return command.exitCode === 0 ? 'not compared' : 'not compared, since the command failed';
  const lost = data.lost.filter(({ rowsWithValue }) => rowsWithValue !== 0);
  const words = [
    ...lost.map(lostWords),
    ...(data.converted ?? []).map((column) => convertedWords(column, 'converts')),
  ];
  if (words.length > 0) return listed(words, { atMost: 2, separator: '; ' });
  const { certain, possible } = losingChanges({ schema, data });
  const names = (changes: typeof certain) =>
    listed(
      changes.map(({ object }) => object),
      { atMost: LISTED },
    );
  if (certain.length + possible.length > 0)
    return [
      ...(certain.length > 0 ? [`lost: ${names(certain)}`] : []),
      ...(possible.length > 0 ? [`may be lost: ${names(possible)}`] : []),
    ].join('; ');
  if (data.withoutRows) return 'not known: no rows here';
  const changed = data.written.reduce((sum, { updated, deleted }) => sum + updated + deleted, 0);
  const atMost = data.written.some((each) => each.atMost) ? 'at most ' : '';
  return `nothing is lost${changed === 0 ? '' : `; ${atMost}${plural(changed, 'row')} updated or deleted`}`;
}

/** The time of an apply or a swap includes the rehearsal, if there was one, and the wait for an answer. */
export function timeTaken({ command, transactions, run, apply, swap }: Report): string {
  const longest = transactions.reduce(
    (most, { startedAt, endedAt }) =>
      endedAt === null ? most : Math.max(most, Date.parse(endedAt) - Date.parse(startedAt)),
    0,
  );
  const inAll = Date.parse(run.finishedAt) - Date.parse(run.startedAt);
  const ended =
    command.exitCode === 0 && !command.timedOut
      ? formatDuration(command.durationMs)
      : `the command ${commandDid(command)}`;
  const inTransactions =
    transactions.length > 1 ? `, the longest transaction ${formatDuration(longest)}` : '';
  const whole = apply === null && swap === null ? 'the rehearsal took' : 'the whole run took';
  return `${ended}${inTransactions}; ${whole} ${formatDuration(Math.max(0, inAll))}`;
}
