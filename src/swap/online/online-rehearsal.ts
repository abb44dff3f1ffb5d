import { openInClone } from '../../clone/own-sessions.ts';
import { openSession } from '../../postgres/connection/connect.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { withSession } from '../../postgres/session-helpers.ts';
import type { ReadClone } from '../../rehearsal/rehearse.ts';
import type { CloneSetup } from '../../rehearsal/run-on-clone.ts';
import { waitForCounters } from '../database-state.ts';
import type { OnlineEligibility, OnlinePlan } from './online-plan.ts';
import { planOnlineSwap, type RehearsedFacts, readCloneBirth } from './plan-online-swap.ts';
import { readStatementFacts } from './rehearsed-facts.ts';

/** Result of a rehearsal for an online swap. */
export interface OnlineRehearsal {
  readonly plan: OnlinePlan;
  /** Facts of the command's statements, as the rehearsal saw them. */
  readonly statements: Omit<RehearsedFacts, 'birth'>;
}

/** The ways to make a clone that keep the target's OIDs, by which tables and columns are matched. */
const KEEPS_OIDS: ReadonlySet<string> = new Set(['template', 'cluster', 'basebackup', 'archive']);

/**
 * Plans the online swap on the clone of the rehearsal, before anything is made in the target.
 * @returns with `found()`: the plan, or why there is none; undefined if the command did not get to its end.
 */
export function planInRehearsal() {
  let found: OnlineRehearsal | { readonly objections: string[] } | undefined;
  const readClone: ReadClone = async (setup) => {
    if (!KEEPS_OIDS.has(setup.clone.method)) {
      found = { objections: [`the rehearsal's clone, made by ${setup.clone.method}, ${NO_OIDS}`] };
      return async () => {};
    }
    const birth = await inBoth(setup, readCloneBirth);
    return async ({ ran, after }) => {
      if (ran.result.exitCode !== 0) return;
      await waitForCounters(setup.context.target.server.versionNum);
      const statements = await readStatementFacts(after.seen);
      const judged = await inBoth(setup, (target, clone) =>
        planOnlineSwap(target, clone, { ...statements, birth }),
      );
      found = judged.eligible ? { plan: judged.plan, statements } : { objections: objectionsText(judged) };
    };
  };
  return { readClone, found: () => found };
}

const NO_OIDS =
  "does not have the target's OIDs, by which an online swap matches tables: rehearse with --clone cluster, or --clone template while the target is idle";

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
export function objectionsText({ objections }: Extract<OnlineEligibility, { eligible: false }>): string[] {
  return objections.map(({ subject, reason, remedy }) => `${subject}: ${reason}; ${remedy}`);
}
