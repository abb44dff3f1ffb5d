import { messageOf } from '../../errors.ts';
import { openSession } from '../../postgres/connection/connect.ts';
import { NO_CONTACTS } from '../../proof/new-sessions.ts';
import type { CloneRun, CloneSetup, OpenWire } from '../run-on-clone.ts';

/** As a session of psql begins. */
const OWN_SETTINGS = 'RESET ALL';

/** A run of statements, with the one that failed and its message. */
export interface ScriptRun extends CloneRun {
  readonly failure: { readonly at: number; readonly message: string } | null;
}

/** Runs statements in one session through the proxy, which it closes, as a command is run; the first failure ends it. */
export async function runScript(
  { life: { stop }, context }: CloneSetup,
  statements: readonly string[],
  open: OpenWire,
): Promise<ScriptRun> {
  const { wire, accessGate } = open;
  const [route] = wire.routes;
  if (!route) throw new Error('there is no route into the clone');
  const { run, audit } = context;
  const session = await openSession(route.entry, { run, audit, purpose: 'proposal', signal: stop.signal });
  const startedMs = performance.now();
  let failure: ScriptRun['failure'] = null;
  let at = 0;
  try {
    await session.query(OWN_SETTINGS);
    for (const sql of statements) {
      await session.query(sql);
      at += 1;
    }
  } catch (error) {
    if (stop.signal.aborted) throw error;
    failure = { at, message: messageOf(error) };
  } finally {
    await session.close();
  }
  const durationMs = performance.now() - startedMs;
  await wire.end();
  await accessGate?.finish();
  const exitCode = failure === null ? 0 : 1;
  return {
    ...open,
    failure,
    rewritten: { argv: [], env: {}, rewritten: [], added: [], undecided: [], copies: [] },
    result: { exitCode, signal: null, timedOut: false, durationMs, pid: process.pid, leftRunning: [] },
    // It runs no program.
    ...NO_CONTACTS,
  };
}
