import { formatCount, formatDuration, listed, plural } from '../../format.ts';
import { attemptAdvice, decidingAttempts } from '../../hazards/attempt-words.ts';
import { timeWords } from '../../hazards/evidence.ts';
import { type HeldLock, longestLocks } from '../../hazards/held-locks.ts';
import type { Hazard, Report } from '../../model/report.ts';
import { watchedWords } from '../isolation-phrases.ts';
import {
  alarmingChanges,
  commandDid,
  convertedWords,
  losingChanges,
  lostWords,
  sizesWords,
  unprovedWords,
} from '../phrases.ts';
import { type FactList, factList, type Item, type Section, sentences } from '../view/section.ts';
import { loadHeadline } from './load-view.ts';

const REASONS = 20;
const LISTED = 3;

/** The verdict with its reasons, and first answers. It is the title of the report unless the run was to change the target. */
export function verdictView(report: Report): Section {
  const { verdict, apply, swap } = report;
  const { pass, reasons } = verdict;
  const [first, ...others] = reasons.length > 0 ? reasons : [impliedReason(report)];
  const passed = pass ? 'passed' : 'did not pass';
  const unproved = unprovedWords(report);
  const watched = watchedWords(report);
  const sizes = sizesWords(report);
  const doubts = [
    ...(unproved === undefined ? [] : [`The target is not proved unchanged: ${unproved}`]),
    ...(watched === undefined ? [] : [watched]),
  ];
  return {
    id: 'verdict',
    title: apply === null && swap === null ? capital(passed) : `The rehearsal ${passed}`,
    summary: first ?? '',
    outcome: pass ? 'good' : 'bad',
    folds: 'never',
    importance: 10,
    blocks: [
      { kind: 'items', items: doubts.map((text): Item => ({ mark: 'warning', text })) },
      ...(sizes === undefined ? [] : [{ kind: 'paragraph', text: capital(sizes) } as const]),
      sentences(others, { listed: REASONS }),
      firstAnswers(report),
    ],
  };
}

function capital(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** The reason if the policy gave none. */
function impliedReason(report: Report): string {
  const { command, schema, data, verdict } = report;
  if (!verdict.pass) return `the command ${commandDid(command)}`;
  const changes = schema?.changes.length ?? 0;
  const { certain, possible } = losingChanges(report);
  const losing = certain.length;
  const counted = schema === null ? '' : ` It makes ${plural(changes, 'schema change')}.`;
  const lost = losing === 0 ? '' : ` ${formatCount(losing)} of them destroy${losing === 1 ? 's' : ''} data.`;
  const perhaps = possible.length === 0 ? '' : ` ${formatCount(possible.length)} of them may lose data.`;
  const rowsLost = (data?.lost ?? []).filter(({ kind }) => kind === 'table');
  const gone = rowsLost.reduce((sum, { rowsWithValue }) => sum + (rowsWithValue ?? 0), 0);
  const isExact = rowsLost.every(({ exact }) => exact);
  const deleted =
    gone === 0
      ? ''
      : ` ${isExact ? '' : 'About '}${plural(gone, 'row')} of its tables ${gone === 1 ? 'is' : 'are'} gone.`;
  const failed = command.swallowedErrors.length;
  const swallowed = failed === 0 ? '' : ` But ${plural(failed, 'statement')} failed in the server.`;
  return `the command succeeded on ${sizeOfClone(report)}.${counted}${lost}${perhaps}${deleted}${swallowed}`;
}

/** Describes the clone for the headline: a clone without all rows has an estimated size. */
function sizeOfClone({ caveats }: Pick<Report, 'caveats'>): string {
  const smaller = caveats.some(({ path, kind }) => path === 'clone.sizeBytes' && kind === 'estimate');
  return smaller ? 'a clone without all of the rows' : 'a full-size clone';
}

/** The first questions of a person who decides about a migration, with an answer in a sentence each. */
function firstAnswers(report: Report): FactList {
  const { apply, swap } = report;
  return factList([
    ['Users', usersWords(report)],
    ['Data', dataWords(report)],
    ['Time', timeTaken(report)],
    // After an apply or a swap, its own lines say what to do.
    ['Next', apply === null && swap === null ? nextWords(report) : null],
  ]);
}

/** The sessions that would wait, and for how long. */
function usersWords({ load, statements, schema, forecast }: Report): string {
  if (load) return `under load, ${loadHeadline(load)}`;
  if (statements.every(({ locks }) => locks === null)) return 'not known: no locks were read';
  const blocking = longestLocks(statements, schema).filter(
    ({ blocks }) => blocks.includes('reads') || blocks.includes('writes'),
  );
  if (blocking.length === 0) return 'no session waits: no lock blocks reads or writes';
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
  return most < 1
    ? '; none came while traffic was sampled'
    : `; about ${plural(most, 'statement')} at its traffic`;
}

/** Losses, or that there is none, and how many rows were changed. */
function dataWords({ data, schema, command }: Report): string {
  if (data === null || schema === null)
    return command.exitCode === 0 ? 'not compared' : 'not compared, since the command failed';
  const lost = data.lost.filter(({ rowsWithValue }) => rowsWithValue !== 0);
  const words = [...lost.map(lostWords), ...(data.converted ?? []).map(convertedWords)];
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
  const changed = data.written.reduce((sum, { updated, deleted }) => sum + updated + deleted, 0);
  return `nothing is lost${changed === 0 ? '' : `; ${plural(changed, 'row')} updated or deleted`}`;
}

/** The time of an apply or a swap includes the rehearsal, if there was one, and the wait for an answer. */
function timeTaken({ command, transactions, run, apply, swap }: Report): string {
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

function howToName({ rewritten, leftForTls }: Report['command']): string {
  if (leftForTls) return 'let the command take sslmode from its URL or from PGSSLMODE, which are rewritten';
  if (rewritten.length > 0)
    return 'read what the command itself says; if it reads a file, name that as {safemigrate:config FILE}';
  return 'name the clone: {safemigrate:url} in an argument or a variable, or {safemigrate:config FILE} for its file';
}

function nextWords(report: Report): string {
  const { verdict, hazards, command, target } = report;
  if (alarmingChanges(target).length > 0) return 'a person must look at the target now';
  const open = hazards.filter(({ allowed }) => !allowed);
  if (!verdict.pass) {
    const attempts = decidingAttempts(command);
    if (attempts.length > 0) return attemptAdvice(attempts);
    const worst = open.find(({ severity }) => severity === 'error');
    if (worst) return firstOf(worst);
    if (!command.reachedClone) return howToName(command);
    return 'mend what the reasons name, and rehearse again';
  }
  const found = (['error', 'warning'] as const)
    .map((severity) => ({ severity, count: open.filter((hazard) => hazard.severity === severity).length }))
    .filter(({ count }) => count > 0)
    .map(({ severity, count }) => (count === 1 ? severity : plural(count, severity)));
  const change = target.origin === 'dump' ? 'deploy it' : 'apply it with safemigrate apply';
  return found.length === 0 ? change : `look at the ${found.join(' and the ')} below; then ${change}`;
}

/** The advice in a sentence. Statements that follow it stand with the hazard, further down. */
function firstOf({ advice, code }: Pick<Hazard, 'advice' | 'code'>): string {
  const [sentence = '', ...statements] = advice.split('\n');
  return statements.length === 0 ? sentence : `${sentence.replace(/:$/, '')}: see the statements at ${code}`;
}
