import { setTimeout as delay } from 'node:timers/promises';
import { messageOf, SafemigrateError, sqlstateOf } from '../../errors.ts';
import { inPhase } from '../../events.ts';
import { formatTime, plural } from '../../format.ts';
import type { SwapSection } from '../../model/report.ts';
import { openMaintenanceSession, openMaintenanceSessionPatiently } from '../../ownership/control-session.ts';
import { insertsName, wayBackName } from '../../ownership/owned-replication.ts';
import {
  dropWayBackObjects,
  enterOriginal,
  findWayBacks,
  resumeWayBack,
  type WayBack,
} from '../../ownership/way-back.ts';
import { openSession } from '../../postgres/connection/connect.ts';
import { readEnvironment } from '../../postgres/connection/environment.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { withSession } from '../../postgres/session-helpers.ts';
import { identifier } from '../../postgres/sql/quote.ts';
import { prepareDigest } from '../../proof/catalogue-digest.ts';
import type { Scope } from '../../scope.ts';
import { readClusterProperties } from '../database-state.ts';
import { prepareWindow } from '../open-window.ts';
import type { SwapSubject } from '../rename.ts';
import type { RollbackPlan } from '../swap-plan.ts';
import { NOTHING_YET, refusedOnline } from '../swap-section.ts';
import type { WritesSince } from '../swap-settings.ts';
import { writesWords } from '../writes-since.ts';
import { catchUp } from './catch-up.ts';
import { CloneLag } from './clone-lag.ts';
import { readWriteCounters, type UnfollowedWrites, writtenUnfollowed } from './counters.ts';
import { closeBoth, costsSoFar, cutOverCosts, type OnlineRun } from './cut-over.ts';
import type { WayBackLimit } from './online-plan.ts';
import { planReturn } from './plan-return.ts';
import { openInTarget } from './source.ts';
import { countersOf } from './start-way-back.ts';

const RESTART_MS = 5_000;

/** The original cannot come back with all writes. */
interface Stopped {
  readonly stopped: string;
}

/** Decisions of a rollback that do not depend on how it is done. */
interface ReturnDecisions {
  /** Writes that do not go back are given up. */
  readonly givesUp: boolean;
  /** Asks the user. @param writes that do not go back, so far. */
  readonly confirm: (writes: WritesSince) => Promise<boolean>;
  /** Refuses a rollback that takes other changes back, and chooses the comment of the database. @param comment of the newer one. */
  readonly judge: (comment: string | null) => Promise<{ comment: string | null }>;
}

/**
 * Swaps the original back with all that was written since: it has followed the newer database, so this is the cut-over of an online
 * swap in the other direction.
 *
 * | step | leftovers if the process dies right after it, and who repairs that |
 * |---|---|
 * | check, catch up, compare | the original open for one session of the role: the agent and `clean` shut it |
 * | close the target | the target closed, with our mark: the agent, `clean`, and every later run reopen it |
 * | hand over | that, and the subscription disabled: the agent and `clean` enable it, so that the original follows again |
 * | close both | that, and the original closed: the same |
 * | rename | the original as the target, open, with a subscription that is disabled; the slot: the agent and `clean` drop both |
 */
export async function returnWithWrites(
  { subject, scope }: { readonly subject: SwapSubject; readonly scope: Scope },
  plan: RollbackPlan,
  wayBack: WayBack,
  { givesUp, confirm, judge }: ReturnDecisions,
): Promise<SwapSection | Stopped> {
  const { control, target, run, emit } = subject;
  const { original, content } = wayBack;
  const name = wayBackName(original.run);
  const state = { isSwapped: false };
  await ownWayBack(subject, scope, original.run, state);
  const newer = await owned(scope, () => openInTarget(subject, 'rollback'));
  const inside = await owned(scope, () =>
    enterOriginal(control, original.name, (database) => enter(subject, database)),
  );
  const { limits, ...back } = await planReturn(newer, inside, [name, insertsName(name)]);
  const counters = countersOf(content);
  const unfollowed = async () => writesIn(writtenUnfollowed(counters, await readWriteCounters(newer), back));
  let written = await unfollowed();
  if (written.tables.length > 0 && !givesUp) return refusedOnline([notFollowed(written)]);
  for (const each of limits.filter(({ stops }) => !stops))
    emit({
      type: 'notice',
      message: `not taken back, and kept only in the database that is put aside: ${each.what}`,
    });
  if (!(await confirm(written))) return refusedOnline(['it was not confirmed']);
  const readDigest = await prepareDigest(newer);
  const digest = await readDigest();
  const lag = new CloneLag();
  await sampleLag(subject, scope, lag, name);
  const properties = await readClusterProperties(control, target.database.oid);
  const following: Omit<OnlineRun, 'window'> = {
    subject,
    fork: {
      inside: newer,
      digest,
      readDigest,
      properties,
      counters: givesUp ? null : counters,
      clone: { database: original.name, oid: original.oid },
    },
    plan: back,
    follower: {
      called: 'original',
      inside,
      name,
      lag,
      // If the rename fails, it can follow again.
      ending: [`ALTER SUBSCRIPTION ${identifier(name)} DISABLE`],
    },
    beforeSealing: async () => {
      if (givesUp) written = await unfollowed();
      await control.query(
        `ALTER DATABASE ${identifier(original.name)} CONNECTION LIMIT ${content.connectionLimit}`,
      );
    },
    script: null,
    maxCutOverMs: plan.online.maxCutOverMs,
    pausesMs: plan.pausesMs,
  };
  let online = NOTHING_YET;
  try {
    online = { ...online, ...(await catchUp(following)) };
  } catch (error) {
    if (!(error instanceof SafemigrateError) || error.code !== 'REFUSED') throw error;
    const found = await violated(newer, limits);
    await Promise.all([newer.close(), inside.close()]);
    return { stopped: [messageOf(error).replace(/\.$/, ''), ...found].join('; ') };
  }
  const environment = readEnvironment(plan.env, plan.folder);
  const window = await prepareWindow(subject, scope, plan.window, environment, [run, original.run]);
  await window.clients.measureGaps();
  try {
    const { comment } = await judge(window.comment);
    const closed = await inPhase(emit, 'cut-over', () => closeBoth({ ...following, window }));
    const section = await window.rename(
      closed.original,
      { ...closed.successor, comment },
      { as: 'rolled-back' },
    );
    state.isSwapped = true;
    return {
      ...section,
      ...(written.tables.length > 0 && { givenUp: { ...written, tables: [...written.tables] } }),
      online: { ...online, ...cutOverCosts(closed, window, lag) },
    };
  } catch (error) {
    return { ...(await window.undo(error)), online: { ...online, ...costsSoFar(window, lag) } };
  }
}

/** Opens a session of a rollback in another database. */
export function enter({ target, run, audit, signal }: SwapSubject, database: string): Promise<Session> {
  return openSession(target.settings, {
    database,
    run,
    audit,
    signal,
    purpose: 'rollback',
    statementTimeoutMs: 0,
  });
}

function owned(scope: Scope, open: () => Promise<Session>): Promise<Session> {
  return scope.own('session of the rollback', open, async (session) => session?.close());
}

const SAMPLE_EVERY_MS = 1_000;

/** Samples how far the original is behind until the rollback ends. A failure leaves samples out, and nothing else. */
async function sampleLag(subject: SwapSubject, scope: Scope, lag: CloneLag, slot: string): Promise<void> {
  const { target, run, audit } = subject;
  const ended = new AbortController();
  const { signal } = ended;
  let sampling: Promise<void> | undefined;
  await scope.own(
    'watch of the original',
    async () => {
      const session = await openMaintenanceSession(target, { run, audit, purpose: 'lag watch' });
      lag.begin(null);
      const sample = async () => {
        while (!signal.aborted) {
          await lag.sample(session, slot);
          await delay(SAMPLE_EVERY_MS, undefined, { signal });
        }
      };
      sampling = sample()
        .catch(() => {})
        .finally(() => session.close());
    },
    async () => {
      ended.abort();
      await sampling;
    },
  );
}

/** Registers the end of the rollback: the original follows as before, or is the target and has no subscription. */
async function ownWayBack(
  subject: SwapSubject,
  scope: Scope,
  of: WayBack['original']['run'],
  state: { readonly isSwapped: boolean },
): Promise<void> {
  const { target, run, audit } = subject;
  const open = (database: string) =>
    openSession(target.settings, { database, run, audit, purpose: 'cleanup' });
  await scope.own(
    'way back',
    async () => {},
    async () => {
      const opening = openMaintenanceSessionPatiently(target, { run, audit, purpose: 'cleanup' }, RESTART_MS);
      await withSession(opening, async (session) => {
        if (state.isSwapped) return void (await dropWayBackObjects(session, of, { enter: open }));
        const mine = (await findWayBacks(session)).find(({ original }) => original.run === of);
        if (mine) await resumeWayBack(session, mine.original, open);
      });
    },
  );
}

/** Adds up what does not go back. */
function writesIn(unfollowed: readonly UnfollowedWrites[]): WritesSince {
  const isCounted = unfollowed.every(({ rows }) => rows !== null);
  return {
    rows: isCounted ? unfollowed.reduce((sum, { rows }) => sum + (rows ?? 0), 0) : null,
    reason: isCounted
      ? null
      : `the server's counters do not tell those of ${unfollowed.map(({ name }) => name).join(', ')}`,
    tables: unfollowed.map(({ name }) => name),
  };
}

function notFollowed(written: WritesSince): string {
  return (
    `the original does not get all rows: ${writesWords(written, 'the swap')}; ` +
    'with --discard-writes they stay in the database that is put aside'
  );
}

/** Counts the rows that stop a way back. */
async function violated(newer: Session, limits: readonly WayBackLimit[]): Promise<string[]> {
  const found: string[] = [];
  for (const { what, rows } of limits) {
    const count = rows === null ? 0 : await countIn(newer, rows);
    if (count > 0) found.push(`${what}: ${plural(count, 'row')}`);
  }
  return found;
}

async function countIn(session: Session, sql: string): Promise<number> {
  try {
    return (await session.query<{ found: number }>(sql))[0]?.found ?? 0;
  } catch (error) {
    // The schema may have been changed since.
    if (sqlstateOf(error) === undefined) throw error;
    return 0;
  }
}

/** Says why a way back does not work, and since when. */
export function brokenWords({ broken }: Pick<WayBack, 'broken'>): string {
  if (!broken) return '';
  return `${broken.reason}${broken.since === null ? '' : `, since ${formatTime(broken.since)}`}`;
}
