import type { Clone, CloneContext } from '../clone/method.ts';
import { forOwnSessions } from '../clone/own-sessions.ts';
import type { ActingObject } from '../model/hazard-facts.ts';
import {
  type RunningObjects,
  readServerCalls,
  unknownAmong,
} from '../observe/clone-boundary/read-server-calls.ts';
import { RehearsalGate } from '../observe/clone-boundary/rehearsal-gate.ts';
import { openSession } from '../postgres/connection/connect.ts';
import type { ProxyPlan } from './plan.ts';
import { guardOptions } from './slices.ts';

/** Opens the gate for a command on the clone. In the target's server it reads first what in the clone acts on that server. */
export async function openGate(
  context: CloneContext,
  clone: Clone,
  proxy: ProxyPlan,
): Promise<RehearsalGate> {
  const options = guardOptions(context, clone, proxy);
  if (clone.isolation === 'own-cluster') return new RehearsalGate(options);
  const { calls } = await readInClone(context, clone);
  return new RehearsalGate({ ...options, calls });
}

/** Lists what the clone has by now that acts on the target's server, and that the gate never saw: it may have run. */
export async function actsUnseen(
  context: CloneContext,
  clone: Clone,
  gate: RehearsalGate,
): Promise<ActingObject[]> {
  if (clone.isolation === 'own-cluster') return [];
  return unknownAmong(gate.knownCalls, await readInClone(context, clone));
}

async function readInClone(
  { run, audit, signal, target }: CloneContext,
  clone: Clone,
): Promise<RunningObjects> {
  const session = await openSession(forOwnSessions(clone, target), {
    run,
    audit,
    signal,
    purpose: 'clone',
    readOnly: true,
  });
  try {
    return await readServerCalls(session, { target: target.database.name, clone: clone.database });
  } finally {
    await session.close();
  }
}
