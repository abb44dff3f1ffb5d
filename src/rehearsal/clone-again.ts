import { prepareClone } from '../clone/after-clone.ts';
import type { Clone, CloneContext } from '../clone/method.ts';
import { type ClonePlace, forOwnSessions, inClone } from '../clone/own-sessions.ts';
import type { SchemaSection } from '../model/report.ts';
import { type Contents, readContents } from '../observe/checks/contents.ts';
import type { Session } from '../postgres/connection/session.ts';
import type { Scope } from '../scope.ts';
import { claimOrEnd } from './clone-context.ts';
import { gateScripts, openGate } from './open-gate.ts';
import type { ProxyPlan } from './plan.ts';
import type { RehearsalContext } from './prepare.ts';
import type { CloneSetup } from './run-on-clone.ts';
import { openSchemaReader } from './with-scope.ts';

/** Makes a clone by the method that was chosen, and prepares it as --after-clone says. */
export async function makeClone(
  context: CloneContext,
  { choice, afterClone }: Pick<RehearsalContext, 'choice' | 'afterClone'>,
  scope: Scope,
  proxy: ProxyPlan,
): Promise<Clone> {
  const clone = await choice.method.create(context, choice.assessment, scope);
  if (afterClone.length === 0) return clone;
  const gate = await openGate(context, clone, proxy);
  const scripts = await gateScripts(afterClone, gate, context.target.database.name);
  const touched = [...clone.touched, ...gate.allowed.map((what) => `${what} by --after-clone`)];
  return prepareClone({ ...clone, touched }, scripts, context);
}

/** Makes a second clone by the same method. It belongs to a run of its own, since names and folders are those of a run. */
export async function cloneAgain(setup: CloneSetup, prepared: RehearsalContext): Promise<CloneSetup> {
  const { plan, life, context: first } = setup;
  const claim = await claimOrEnd(first.target, life, first.audit);
  const context: CloneContext = { ...first, ...claim, options: { ...first.options, keep: false } };
  return { ...setup, context, clone: await makeClone(context, prepared, life.scope, plan.proxy) };
}

/** Says whether a second clone has the schema that the run on the first one left; null if that is not known. */
export async function hasSameSchema(
  { life, plan, clone, context }: CloneSetup,
  quiet: SchemaSection | null,
): Promise<boolean | null> {
  if (quiet === null) return null;
  const reader = await openSchemaReader(life.scope, plan);
  await reader.before(forOwnSessions(clone, context.target), { run: context.run });
  return (await reader.fingerprint()) === quiet.after;
}

/** Time for each statement that reads the contents of many tables. */
const CONTENTS_TIMEOUT_MS = 300_000;

/** Uses a session that may read the contents of many tables. */
export function inCloneForContents<T>(place: ClonePlace, use: (session: Session) => Promise<T>): Promise<T> {
  return inClone(place, use, { statementTimeoutMs: CONTENTS_TIMEOUT_MS });
}

/** Digests what the tables of a clone hold. */
export function contentsOf(
  place: ClonePlace,
  options?: Parameters<typeof readContents>[1],
): Promise<Contents> {
  return inCloneForContents(place, (session) => readContents(session, options));
}
