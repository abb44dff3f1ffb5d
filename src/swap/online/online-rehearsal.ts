import type { Script } from '../../clone/after-clone.ts';
import type { CloneContext } from '../../clone/method.ts';
import { openInClone } from '../../clone/own-sessions.ts';
import { openSession } from '../../postgres/connection/connect.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { waitUntil, withSession } from '../../postgres/session-helpers.ts';
import type { CloneReader } from '../../rehearsal/rehearse.ts';
import type { CloneSetup } from '../../rehearsal/run-on-clone.ts';
import { waitForCounters } from '../database-state.ts';
import { tryScript } from './catch-up-script.ts';
import type { OnlinePlan, WayBackPlan } from './online-plan.ts';
import { type CloneBirth, planOnlineSwap, type RehearsedFacts, readCloneBirth } from './plan-online-swap.ts';
import { readStatementFacts } from './rehearsed-facts.ts';

/** Result of a rehearsal for an online swap. */
export interface OnlineRehearsal {
  readonly plan: OnlinePlan;
  readonly wayBack: WayBackPlan;
  /** Facts of the command's statements, as the rehearsal saw them. */
  readonly statements: Omit<RehearsedFacts, 'birth'>;
}

/** The ways to make a clone that keep the target's OIDs, by which tables and columns are matched. */
export const KEEPS_OIDS: ReadonlySet<string> = new Set(['template', 'cluster', 'basebackup', 'archive']);

/**
 * Plans the online swap on the clone of the rehearsal, before anything is made in the target.
 * @returns with `found()`: the plan, or why there is none; undefined if the command did not get to its end.
 */
export function planInRehearsal(script: Script | null) {
  let found: OnlineRehearsal | { readonly objections: string[] } | undefined;
  let [birth, now]: (CloneBirth | undefined)[] = [];
  const reader: CloneReader = {
    async before(setup) {
      const { method } = setup.clone;
      if (KEEPS_OIDS.has(method)) birth = await inBoth(setup, readCloneBirth);
      else found = { objections: [`the rehearsal's clone, made by ${method}, ${NO_OIDS}`] };
    },
    async after(setup, { result }) {
      if (!birth || result.exitCode !== 0) return;
      now = await inBoth(setup, async (target, clone) => {
        await waitForCommand(clone, setup.context);
        return readCloneBirth(target, clone);
      });
    },
    async judge({ setup, after }) {
      if (!birth || !now) return;
      const statements = { ...(await readStatementFacts(after.seen)), catchesUp: script !== null };
      const facts = { ...statements, birth, now };
      const judged = await inBoth(setup, (target, clone) => planOnlineSwap(target, clone, facts));
      const failure = judged.eligible && script ? await tryOnClone(setup, judged.plan, script) : null;
      if (!judged.eligible) found = { objections: objectionsText(judged) };
      else if (failure !== null) found = { objections: [failure] };
      else found = { plan: judged.plan, wayBack: judged.wayBack, statements };
    },
  };
  return { reader, found: () => found };
}

const OTHERS = `
SELECT count(*)::int AS others FROM pg_stat_activity WHERE datname = current_database()
   AND pid <> pg_backend_pid() AND backend_type = 'client backend' AND application_name NOT LIKE 'safemigrate %'`;
const ENDED_WITHIN_MS = 10_000;
const POLL_MS = 10;

/** Waits until the clone's counters include the rows of the command: they do once its sessions have ended. */
export async function waitForCommand(
  clone: Session,
  { signal, target }: Pick<CloneContext, 'signal' | 'target'>,
): Promise<void> {
  const haveEnded = async () => {
    const [row] = await clone.query<{ others: number }>(OTHERS);
    return row?.others === 0;
  };
  await waitUntil(haveEnded, { everyMs: POLL_MS, timeoutMs: ENDED_WITHIN_MS, signal });
  await waitForCounters(target.server.versionNum);
}

const NO_OIDS =
  "does not have the target's OIDs, by which an online swap matches tables: rehearse with --clone cluster, or --clone template while the target is idle";

function tryOnClone(
  { context, clone }: CloneSetup,
  plan: OnlinePlan,
  script: Script,
): Promise<string | null> {
  const options = { purpose: 'online', readOnly: false, statementTimeoutMs: 0 };
  return withSession(openInClone({ clone, context }, options), (session) => tryScript(session, plan, script));
}

function inBoth<T>(
  { context, clone }: CloneSetup,
  work: (target: Session, clone: Session) => Promise<T>,
): Promise<T> {
  const { target, run, audit, signal } = context;
  const opening = openSession(target.settings, { run, audit, signal, purpose: 'online', readOnly: true });
  return withSession(opening, (inTarget) =>
    withSession(openInClone({ clone, context }, { purpose: 'online' }), (inside) => work(inTarget, inside)),
  );
}

/** Objections to a migration, for people. */
export function objectionsText({ objections }: Pick<WayBackPlan, 'objections'>): string[] {
  return objections.map(({ subject, reason, remedy }) => `${subject}: ${reason}; ${remedy}`);
}
