import { formatCount, formatDuration, plural } from '../format.ts';
import type { LoadedRunSection, LoadSection } from '../model/load-model.ts';
import type { Hazard, StatementSection } from '../model/report.ts';
import type { HazardTexts } from './hazard-definition.ts';

const DEADLOCK: HazardTexts = {
  code: 'DEADLOCK',
  title: 'the migration and the traffic wait for each other',
  condition:
    'In the run under load (--load) the server found a deadlock between the command and a transaction of the load.',
  effect:
    'After deadlock_timeout one of the two is rolled back: the migration fails half-way, or requests of the application do; until then everything behind their locks waits.',
  safer:
    'Lock the tables in the same order as the application does, or split the transaction, so that it never waits for one table while it holds another.',
};
const BLOCKED: HazardTexts = {
  code: 'TRAFFIC_BLOCKED',
  title: 'the traffic waits behind the migration',
  condition:
    'In the run under load (--load) sessions waited behind the command: a warning from 1 s for the longest wait, or if the requests that are held back would need more connections than the target has; an error from 10 s.',
  effect:
    'Requests take that much longer, connections pile up, and behind a pool that is full all others wait as well.',
  safer:
    'Take the locks for a moment only: build and validate concurrently, fill in batches, split the transaction; and let a lock_timeout give up early (safemigrate apply sets one).',
};
const FAILS: HazardTexts = {
  code: 'TRAFFIC_FAILS',
  title: 'transactions of the traffic fail because of the migration',
  condition:
    'In the run under load (--load) transactions failed while the command ran or after it, with errors that did not occur before; deadlocks are DEADLOCK.',
  effect: 'Requests fail for as long as the migration runs, or for good if they need what it has removed.',
  safer: 'Let the application stop using what is removed before the migration; shorten what makes it wait.',
};
const RECOVERY: HazardTexts = {
  code: 'SLOW_RECOVERY',
  title: 'sessions still wait long after the migration has ended',
  condition:
    'In the run under load (--load) sessions waited behind the command for more than 5 s after its end.',
  effect: 'The outage lasts longer than the migration.',
  safer: 'Run it at a time of less traffic, or in smaller steps.',
};

/** Hazards of the run under load. */
export const LOAD_HAZARDS: readonly HazardTexts[] = [DEADLOCK, BLOCKED, FAILS, RECOVERY];

/** Tells if a hazard says only that there may be what another one has measured. */
export function foretells(code: string, measured: string): boolean {
  return code === 'DEADLOCK_RISK' && measured === DEADLOCK.code;
}

const WARNING_MS = 1000;
const ERROR_MS = 10_000;
/** A wait below this is not worth a line. */
const NOTICE_MS = 100;
const SLOW_RECOVERY_MS = 5000;
const DEADLOCK_DETECTED = '40P01';

/**
 * Finds the hazards of the run under load. If there was one with the guardrails of an apply, it decides: what only the other one has is a
 * notice.
 * @param load null if there was no run under load.
 * @param statements those of the run without load: a hazard names one of them if the other run sent it at the same place.
 */
export function findLoadHazards(
  load: LoadSection | null,
  statements: readonly Pick<StatementSection, 'index' | 'sql'>[],
): Hazard[] {
  if (load === null) return [];
  const plain = hazardsOf(load, statements);
  if (load.guarded === null) return plain;
  const guarded = hazardsOf(load.guarded, statements);
  const has = ({ code, relation }: Hazard) =>
    guarded.some((each) => each.code === code && each.relation === relation);
  return [
    ...guarded.map((each) => ({
      ...each,
      evidence: withWords(each.evidence, 'with the guardrails of an apply'),
    })),
    ...plain
      .filter((each) => !has(each))
      .map((each) => ({
        ...each,
        severity: 'notice' as const,
        evidence: withWords(each.evidence, 'only without the guardrails of an apply'),
      })),
  ];
}

function withWords(evidence: string, words: string): string {
  return evidence === '' ? words : `${evidence}; ${words}`;
}

function hazardsOf(
  load: LoadedRunSection,
  statements: readonly Pick<StatementSection, 'index' | 'sql'>[],
): Hazard[] {
  const texts = new Map(statements.map(({ index, sql }) => [index, sql]));
  const known = <Part extends { readonly statement: number | null; readonly sql: string | null }>(
    part: Part,
  ): Part =>
    part.statement !== null && texts.get(part.statement) === part.sql ? part : { ...part, statement: null };
  const same = { ...load, deadlocks: load.deadlocks.map(known), blocked: load.blocked.map(known) };
  return [...deadlocks(same), ...blocked(same), ...failures(same), ...recovery(same)];
}

function deadlocks({ deadlocks: found }: LoadedRunSection): Hazard[] {
  const [first] = found;
  if (!first) return [];
  const ofCommand = found.filter(({ victim }) => victim === 'command').length;
  const victims = [
    ...(ofCommand > 0 ? [`the command ${ofCommand === 1 ? 'once' : plural(ofCommand, 'time')}`] : []),
    ...(found.length > ofCommand ? [`${plural(found.length - ofCommand, 'transaction')} of the load`] : []),
  ];
  return [
    hazard(DEADLOCK, {
      severity: 'error',
      statement: first.statement,
      message: `The command and the traffic wait for each other; rolled back: ${victims.join(' and ')}.`,
      evidence: first.detail.replaceAll('\n', ' '),
    }),
  ];
}

function blocked({ blocked: found, before, pool }: LoadedRunSection): Hazard[] {
  const full = pool !== null && pool.open < pool.limit && pool.needed >= pool.limit;
  const relations = new Set(found.map(({ relation }) => relation));
  return [...relations].flatMap((relation) => {
    const parts = found.filter((each) => each.relation === relation);
    const longestMs = Math.max(...parts.map((part) => part.longestMs));
    if (longestMs < NOTICE_MS) return [];
    const blockedMs = parts.reduce((sum, part) => sum + part.blockedMs, 0);
    // The first one has most of the waiting; sessions wait behind several statements of one transaction.
    const [{ statement } = { statement: null }] = parts;
    const sessions = Math.max(...parts.map((part) => part.sessions));
    return [
      hazard(BLOCKED, {
        severity: longestMs >= ERROR_MS ? 'error' : longestMs >= WARNING_MS || full ? 'warning' : 'notice',
        statement,
        relation,
        message: `${plural(sessions, 'session')} waited for ${relation ?? 'what the command had locked'}, up to ${formatDuration(longestMs)}.`,
        evidence:
          `${formatDuration(blockedMs)} of waiting in all, under ${rateOf(before)} transactions a second` +
          (full
            ? `; if a connection is opened for each request that is held back, ${formatCount(pool.needed)} of ${formatCount(pool.limit)} are needed`
            : ''),
      }),
    ];
  });
}

function failures({ failures: found, before, during }: LoadedRunSection): Hazard[] {
  const others = found.filter(({ sqlstate }) => sqlstate !== DEADLOCK_DETECTED);
  const [first] = others;
  // What failed in the same measure before is not the command's doing.
  const wasFailing =
    before.failures * Math.max(during.durationMs, 1) >= during.failures * Math.max(before.durationMs, 1);
  if (!first || wasFailing) return [];
  const count = others.reduce((sum, each) => sum + each.count, 0);
  return [
    hazard(FAILS, {
      severity: count * 100 >= during.transactions ? 'error' : 'warning',
      statement: null,
      message: `${plural(count, 'transaction')} of the traffic failed.`,
      evidence: others
        .slice(0, 3)
        .map(
          (each) =>
            `${formatCount(each.count)} × ${each.message}${each.sqlstate ? ` (SQLSTATE ${each.sqlstate})` : ''}`,
        )
        .join('; '),
    }),
  ];
}

function recovery({ recoveryMs }: LoadedRunSection): Hazard[] {
  if (recoveryMs !== null && recoveryMs <= SLOW_RECOVERY_MS) return [];
  const message =
    recoveryMs === null
      ? 'Sessions still waited when the run under load was ended.'
      : `Sessions waited for ${formatDuration(recoveryMs)} after the command had ended.`;
  return [hazard(RECOVERY, { severity: 'warning', statement: null, message, evidence: '' })];
}

function rateOf({ transactions, durationMs }: LoadedRunSection['before']): string {
  return formatCount(Math.round((transactions * 1000) / Math.max(durationMs, 1)));
}

function hazard(
  { code, safer }: HazardTexts,
  found: Pick<Hazard, 'severity' | 'statement' | 'message' | 'evidence'> & { relation?: string | null },
): Hazard {
  return { relation: null, ...found, code, advice: safer, allowed: false };
}
