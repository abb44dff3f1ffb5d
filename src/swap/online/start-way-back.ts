import { inClone } from '../../clone/own-sessions.ts';
import { messageOf } from '../../errors.ts';
import type { OnlineSection } from '../../model/report.ts';
import { openMaintenanceSessionPatiently } from '../../ownership/control-session.ts';
import { formatMark, type Mark } from '../../ownership/mark.ts';
import { dropOwnedSlot, wayBackName } from '../../ownership/owned-replication.ts';
import { inTransaction } from '../../ownership/reopen.ts';
import {
  endWayBack,
  enterOriginal,
  findWayBacks,
  resumeWayBack,
  shutStatement,
  type WayBack,
} from '../../ownership/way-back.ts';
import { openSession } from '../../postgres/connection/connect.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { waitUntil, withSession } from '../../postgres/session-helpers.ts';
import { identifier, literal } from '../../postgres/sql/quote.ts';
import type { RehearsalContext } from '../../rehearsal/prepare.ts';
import type { Scope } from '../../scope.ts';
import type { SwapSubject } from '../rename.ts';
import { readWriteCounters, type WriteCounters } from './counters.ts';
import { followingOptions } from './follower.ts';
import type { Fork } from './fork.ts';
import type { WayBackPlan } from './online-plan.ts';
import { createSubscription, type OwnConnection, withoutLogin } from './own-connection.ts';
import { makeSlot, openInTarget, publishTables } from './source.ts';

const RESTART_MS = 5_000;

export type StartedWayBack = Omit<NonNullable<OnlineSection['wayBack']>, 'watchdogPid'>;

/** A way back that was prepared in the clone before the cut-over. */
export interface PreparedWayBack {
  /** The part of the original's mark that says that it is going to follow. */
  mark(): NonNullable<Mark['wayBack']>;
  /**
   * Lets the original follow the new target, after the rename. It does not throw: the swap is done.
   * @param lsn every commit in the new target comes after it, but for those that the original has.
   */
  start(lsn: string): Promise<StartedWayBack>;
}

/**
 * Publishes the clone's tables, and makes the slot that keeps its changes: the slot waits for running transactions, so this cannot be
 * done while the target is closed. The steps:
 *
 * | step | leftovers if the process dies right after it, and who repairs that |
 * |---|---|
 * | publications, slot in the clone | both: the agent and `clean` drop them with the clone |
 * | rename | the original with a mark that it is starting: the agent and `clean` end the way back |
 * | open the original for one session, subscription, its position | the same |
 * | enable | the same: the original may have the first writes |
 * | CONNECTION LIMIT 0, mark that it is following, wait for its worker | a way back that needs no process of ours |
 */
export async function prepareWayBack(
  { context }: RehearsalContext,
  { subject, scope }: { readonly subject: SwapSubject; readonly scope: Scope },
  { clone, properties }: Fork,
  {
    plan,
    way,
    lastsMs,
    leastFreeBytes,
  }: {
    readonly plan: WayBackPlan;
    readonly way: OwnConnection;
    readonly lastsMs: number;
    readonly leastFreeBytes: number | null;
  },
): Promise<PreparedWayBack> {
  const { run, target, audit } = subject;
  const name = wayBackName(run);
  const place = { clone, context };
  let isFollowing = false;
  const counters = await scope.own(
    `replication slot ${name}`,
    () =>
      inClone(
        place,
        async (inside) => {
          await publishTables(inside, name, plan.tables);
          await makeSlot(inside, name);
          return readWriteCounters(inside);
        },
        { readOnly: false },
      ),
    async () => {
      if (isFollowing) return;
      const opening = openMaintenanceSessionPatiently(target, { run, audit, purpose: 'cleanup' }, RESTART_MS);
      await withSession(opening, (session) => removeUnfinished(session, subject));
    },
  );
  const limits = plan.limits.map(({ what }) => what);
  const until = () => new Date(Date.now() + lastsMs).toISOString();
  let endsAt = until();
  return {
    mark() {
      endsAt = until();
      const connectionLimit = Number(properties.datconnlimit);
      const stored = storedCounters(counters, plan);
      return { until: endsAt, state: 'starting', connectionLimit, leastFreeBytes, ...stored };
    },
    async start(lsn) {
      try {
        await letOriginalFollow(subject, way, lsn);
        isFollowing = true;
        return { until: endsAt, limits, failure: null };
      } catch (error) {
        return { until: null, limits: [], failure: messageOf(error) };
      }
    },
  };
}

async function removeUnfinished(session: Session, { run, target, audit }: SwapSubject): Promise<void> {
  const mine = await ownWayBack(session, run);
  const enter = (database: string) =>
    openSession(target.settings, { database, run, audit, purpose: 'cleanup' });
  if (mine) await endWayBack(session, mine, enter);
  else await dropOwnedSlot(session, { run, ownRun: true, name: wayBackName(run) });
}

async function ownWayBack(session: Session, run: string): Promise<WayBack | undefined> {
  return (await findWayBacks(session)).find(({ original }) => original.run === run);
}

/** Keeps the counters by which writes that do not go back are noticed: those of tables that are not replicated in full. */
function storedCounters({ tables, since }: WriteCounters, plan: WayBackPlan) {
  const inFull = new Set(plan.tables.filter(({ insertsOnly }) => !insertsOnly).map(({ oid }) => oid));
  const moved = [...tables].filter(
    ([oid, { inserted, changed }]) => !inFull.has(oid) && `${inserted} ${changed}` !== '0 0',
  );
  const counters = Object.fromEntries(
    moved.map(([oid, { inserted, changed }]) => [String(oid), [inserted, changed] as const]),
  );
  return { counters, countedSince: since };
}

/** Reads the counters that a mark has kept. */
export function countersOf({ counters, countedSince }: WayBack['content']): WriteCounters {
  const tables = Object.entries(counters).map(
    ([oid, [inserted, changed]]) => [Number(oid), { name: '', inserted, changed }] as const,
  );
  return { tables: new Map(tables), since: countedSince, largeObjects: false };
}

/** A superuser sets the position where a crash does not lose it. */
const ORIGIN = `
SELECT pg_replication_origin_advance('pg_' || oid, $2::pg_lsn) FROM pg_subscription
 WHERE subname = $1 AND subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())`;
const SLOT = 'SELECT pg_replication_slot_advance($1, $2::pg_lsn)';

async function letOriginalFollow(subject: SwapSubject, way: OwnConnection, lsn: string): Promise<void> {
  const { control, run, target } = subject;
  const { superuser } = target.role;
  const audit = withoutLogin(subject.audit);
  const mine = await ownWayBack(control, run);
  if (!mine) throw new Error('the original has lost its mark');
  const { original, content } = mine;
  const name = wayBackName(run);
  const enter = (database: string) =>
    openSession(target.settings, { database, run, audit, purpose: 'way back' });
  await withSession(enterOriginal(control, original.name, enter), async (inside) => {
    const options = followingOptions(target.server.versionNum);
    await createSubscription(inside, { name, way, options, superuser });
    if (superuser) await inside.query(ORIGIN, [name, lsn]);
    else await withSession(openInTarget(subject, 'way back'), (newer) => newer.query(SLOT, [name, lsn]));
    await inside.query(`ALTER SUBSCRIPTION ${identifier(name)} ENABLE`);
  });
  const mark = formatMark({ ...original.mark, wayBack: { ...content, state: 'following' } });
  await inTransaction(control, [
    shutStatement(original.name),
    `COMMENT ON DATABASE ${identifier(original.name)} IS ${literal(mark)}`,
  ]);
  let resumed = 0;
  const follows = async () => {
    const broken = (await ownWayBack(control, run))?.broken;
    // A connection that breaks disables it as well (disable_on_error), so it gets another try.
    if (broken?.kind === 'stopped' && resumed++ < MOST_RESUMED) await resumeWayBack(control, original, enter);
    return broken === null;
  };
  if (await waitUntil(follows, { everyMs: 50, timeoutMs: STARTED_WITHIN_MS })) return;
  throw new Error("its worker did not start; the server's log has the reason");
}

/** Before 16 the server starts one worker every 5 s. */
const STARTED_WITHIN_MS = 15_000;
/** An original that cannot apply a write stops each time. */
const MOST_RESUMED = 3;
