import { ExternalAccessGate } from '../boundary/external-access-gate.ts';
import { HarmlessJudge } from '../boundary/harmless-judge.ts';
import { unknownInStatement } from '../boundary/harmless-statement.ts';
import {
  addSharedViews,
  type RunningObjects,
  readServerCalls,
  unknownAmong,
  writingFunction,
} from '../boundary/read-server-calls.ts';
import { findUsesOf, readUnknownCode, type UnknownCode } from '../boundary/read-unknown-code.ts';
import { RehearsalGate, type RehearsalGateOptions } from '../boundary/rehearsal-gate.ts';
import { type KnownFunction, ServerCalls } from '../boundary/server-calls.ts';
import type { Names } from '../boundary/statement-scope.ts';
import { ANYTHING } from '../boundary/unknown-names.ts';
import { type Script, shortenedScript } from '../clone/after-clone.ts';
import type { Clone, CloneContext } from '../clone/method.ts';
import { inClone, openInClone } from '../clone/own-sessions.ts';
import { SafemigrateError } from '../errors.ts';
import type { ActingObject } from '../model/hazard-facts.ts';
import type { Doubt } from '../observe/probes/probed-relations.ts';
import type { Session } from '../postgres/connection/session.ts';
import { type ParsedStatement, parseText } from '../postgres/sql/parse.ts';
import { nameParts } from '../postgres/sql/quote.ts';
import type { Scope } from '../scope.ts';
import type { ProxyPlan } from './plan.ts';

/**
 * Opens the gate for a command on the clone. In the target's server it reads first what in the clone acts on that server.
 * @param session in the clone; default: a new one.
 * @param readUnknown reads the code that is not known to be harmless.
 */
export async function openGate(
  context: CloneContext,
  clone: Clone,
  proxy: ProxyPlan,
  session?: Session,
  readUnknown = readUnknownCode,
): Promise<RehearsalGate> {
  const options = guardOptions(context, clone, proxy);
  const gate = new RehearsalGate(options);
  if (gate.open || clone.containment === 'other-server') return gate;
  const read = async (within: Session) => {
    const calls = new ServerCalls();
    if (clone.isolation === 'same-cluster') {
      await readServerCalls(within, namesIn(context, clone), calls);
      await addSharedViews(within, calls);
    }
    return { calls, unknown: await readUnknown(within) };
  };
  const { calls, unknown } = await (session ? read(session) : inClone({ clone, context }, read));
  const findUses: RehearsalGateOptions['findUses'] = async (learned) => {
    if (clone.isolation === 'same-cluster') await readInClone(context, clone, calls, learned);
  };
  const findUnknown = (added: readonly string[]) =>
    inClone({ clone, context }, (within) => findUsesOf(within, unknown.names, added));
  const judge = new HarmlessJudge(unknown, findUnknown);
  const rewritesShared = (user: string) => unknown.mayRewriteShared || user !== context.target.role.name;
  return new RehearsalGate({ ...options, calls, findUses, judge, rewritesShared });
}

/** Lists what the clone has by now that acts on the target's server, and that the gate never saw: it may have run. */
export async function actsUnseen(
  context: CloneContext,
  clone: Clone,
  gate: RehearsalGate,
  session: Session,
): Promise<ActingObject[]> {
  if (clone.isolation === 'own-cluster') return [];
  return unknownAmong(gate.knownCalls, await readServerCalls(session, namesIn(context, clone)));
}

/** Reads which relations lead to code that might act outside of the clone, and must not run because of us; in a sandbox none can. */
export async function readDoubt(
  clone: Clone,
  session: Session,
  readUnknown = readUnknownCode,
): Promise<Doubt> {
  if (clone.containment === 'sandbox') return () => undefined;
  const { names } = await readUnknown(session);
  return (relation, way) => names.find(ANYTHING, 'use') ?? names.find(nameParts(relation).at(-1) ?? '', way);
}

/** Reads which statements may run because of us: in a sandbox all, elsewhere those that are known to be harmless. */
export async function readHarmless(
  clone: Clone,
  session: Session,
): Promise<(sql: string) => Promise<boolean>> {
  if (clone.containment === 'sandbox') return async () => true;
  const { names } = await readUnknownCode(session);
  return async (sql) => {
    const [statement, ...others] = (await parseText(Buffer.from(sql))) ?? [];
    if (statement === undefined || others.length > 0) return false;
    return (await unknownInStatement(sql, statement.node, names)) === undefined;
  };
}

/** A reader of the code that is not known to be harmless, which reads it once (25 ms): nothing changes the clone meanwhile. */
export function readUnknownOnce(): typeof readUnknownCode {
  let found: Promise<UnknownCode> | undefined;
  return (session) => {
    found ??= readUnknownCode(session).catch((error: unknown) => {
      found = undefined;
      throw error;
    });
    return found;
  };
}

/** Opens the gate around that one for a clone that has no sandbox; null if other systems are out of reach, or permitted. */
export async function openAccessGate(
  scope: Scope,
  context: CloneContext,
  clone: Clone,
  gate: RehearsalGate,
): Promise<ExternalAccessGate | null> {
  if (context.options.allowExternalAccess || !UNSANDBOXED.includes(clone.containment)) return null;
  const connect = () => openInClone({ clone, context }, { purpose: 'catalogue' });
  return scope.own(
    'session that guards the clone',
    async () => new ExternalAccessGate(gate, connect),
    async (opened) => opened?.close(),
  );
}

/** Clones from which the command may reach other systems. A server that the user keeps elsewhere is the user's matter. */
const UNSANDBOXED: readonly Clone['containment'][] = ['target-server', 'offline', 'own-server'];

function namesIn({ target }: CloneContext, { database }: Clone): Names {
  return { target: target.database.name, clone: database };
}

function readInClone(
  context: CloneContext,
  clone: Clone,
  calls?: ServerCalls,
  learned?: readonly KnownFunction[],
): Promise<RunningObjects> {
  const names = namesIn(context, clone);
  return inClone({ clone, context }, (session) => readServerCalls(session, names, calls, learned));
}

/**
 * Keeps the scripts of --after-clone within the clone, as the command is kept. None has run yet.
 * @returns them as they are to be run: what named the target names the clone.
 * @throws SafemigrateError `CLONE` for the first statement that would take effect beyond the clone.
 */
export async function gateScripts(
  scripts: readonly Script[],
  gate: RehearsalGate,
  target: string,
): Promise<Script[]> {
  const gated: Script[] = [];
  for (const { name, sql: given } of scripts) {
    const statements = await parseText(Buffer.from(given));
    const sql = (await gate.translate(given, statements ?? [])) ?? given;
    const sent: readonly (ParsedStatement | null)[] = (await parseText(Buffer.from(sql))) ?? [null];
    for (const parsed of sent) {
      const answer = await gate.before({ session: 0, user: '', database: target, sql, parsed });
      if (answer === 'run') continue;
      throw new SafemigrateError('CLONE', `--after-clone ${shortenedScript(name)}: ${answer.message}.`, {
        hint: `The target was not touched, and the command was not run. ${answer.hint ?? ''}`.trim(),
      });
    }
    gated.push({ name, sql });
  }
  return gated;
}

function guardOptions(
  { target, control }: CloneContext,
  clone: Clone,
  { allowClusterStatements }: ProxyPlan,
): RehearsalGateOptions {
  return {
    names: { target: target.database.name, clone: clone.database },
    isolation: clone.isolation,
    sandboxed: clone.containment === 'sandbox',
    allow: allowClusterStatements,
    marking: clone.marking,
    writingFunction: (names) => writingFunction(control, names),
    databases: clone.made,
    ...(clone.leftOut ? { leftOut: clone.leftOut } : {}),
  };
}
