import { existsSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { readScripts, type Script } from '../clone/after-clone.ts';
import { type Choice, chooseMethod } from '../clone/choose.ts';
import type { CloneContext } from '../clone/method.ts';
import { effective } from '../command/mention.ts';
import { resolveCommand } from '../command/resolve.ts';
import { findLogins } from '../command/rewrite.ts';
import { type CommandSandbox, chooseSandbox, requireSandbox } from '../command/sandbox/command-sandbox.ts';
import { withPlacesOf } from '../command/sandbox/target-addresses.ts';
import { filesOfAuthorities } from '../command/sandbox/trust-files.ts';
import { leadsToClone, unnamedTarget } from '../command/sandbox/unnamed-target.ts';
import { readDiskSpace } from '../database/data-folders.ts';
import type { Visit } from '../database/inspect.ts';
import { locateTarget } from '../database/locate.ts';
import { comparer } from '../database/same-target.ts';
import { SafemigrateError } from '../errors.ts';
import type { DiskSpace } from '../model/hazard-facts.ts';
import type { Caveat } from '../model/report.ts';
import { newRunId } from '../ownership/run-id.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import { readEnvironment } from '../postgres/connection/environment.ts';
import type { Session } from '../postgres/connection/session.ts';
import { untriedVersion } from '../postgres/connection/supported-versions.ts';
import { readTargetState, type TargetState } from '../proof/target-state.ts';
import { requireListening } from '../proxy/proxy.ts';
import type { Scope } from '../scope.ts';
import type { Stop } from '../stop.ts';
import { makeCloneContext, visitFirst } from './clone-context.ts';
import { restoreFile } from './from-file.ts';
import { type App, locateApps, requireAppFolder } from './locate-apps.ts';
import type { RehearsalPlan } from './plan.ts';
import { type ProvenProfile, readProfile } from './profile/profile-file.ts';
import { askTarget, type Questions, readGiven } from './requested-checks.ts';
import type { LocatedCommand } from './run-on-clone.ts';
import type { Lifetime } from './with-scope.ts';

/** All that a rehearsal knows before the first statement that changes anything on the server. */
export interface RehearsalContext {
  /** Input of a clone method. */
  readonly context: CloneContext;
  /** The target's, with every host that the user named. */
  readonly settings: ConnectionSettings;
  /** The migration command. */
  readonly command: LocatedCommand;
  /** The command that undoes the migration; null if none was given. */
  readonly down: LocatedCommand | null;
  readonly apps: readonly App[];
  readonly questions: Questions;
  /** null: what is found is judged by the target's own sizes and rates. */
  readonly profile: ProvenProfile | null;
  /** To be run on the clone before it is read. */
  readonly afterClone: readonly Script[];
  readonly choice: Choice;
  /** Sandbox of the command's runs on the clone. */
  readonly sandbox: CommandSandbox;
  readonly stateBefore: TargetState;
  /** Where the target's files lie, before anything was made; null if that cannot be seen from here. */
  readonly diskSpace: DiskSpace | null;
}

/** Connects, inspects, claims, finds the command's logins, chooses how to clone, and reads the target: in this order. */
export async function prepare(scope: Scope, stop: Stop, plan: RehearsalPlan): Promise<RehearsalContext> {
  const request = await readRequest(scope, stop, plan);
  return visitFirst(request.run, request.place.located, stop, plan, (visit) =>
    inspect(request, visit, { scope, stop }, plan),
  );
}

/** Reads what the options and files say, before any server is reached. */
async function readRequest(scope: Scope, stop: Stop, plan: RehearsalPlan) {
  const { target, command, clone } = plan;
  refuseToOverwrite('--propose', plan.propose, plan);
  refuseToOverwrite('--script', plan.script, plan);
  requireAppFolder(plan);
  const outside = readEnvironment(command.env, command.folder);
  const located = target.from === null ? locateTarget(target, outside) : undefined;
  resolveCommand(command.argv, { path: outside.env.PATH ?? '', folder: outside.folder });
  await requireListening(plan.proxy.listen);
  const profile = await profileOf(plan);
  const given = await readGiven(plan.checks, command.folder, profile?.profile ?? null);
  const afterClone = readScripts(clone.afterClone, outside.folder);
  const place = located
    ? { located, environment: outside, caveats: [] }
    : await restoreFile(scope, stop, plan, outside);
  const asked = { plan: command.sandbox, settings: place.located.settings };
  if (command.sandbox.mode === 'required') await requireSandbox(asked);
  return { place, given, profile, afterClone, run: newRunId() };
}

/** The output file must not exist: a user's file is never overwritten. */
function refuseToOverwrite(option: string, given: string | null, { command }: RehearsalPlan): void {
  if (given === null) return;
  const file = resolve(command.folder, given);
  const isThere = existsSync(file);
  if (!isThere && existsSync(dirname(file))) return;
  const why = isThere ? `${given} exists, and is not overwritten` : `there is no folder ${dirname(file)}`;
  throw new SafemigrateError('CONFIGURATION', `${option}: ${why}.`, {
    hint: 'Name another file. Nothing was touched.',
  });
}

async function profileOf({ profile, receipt, command }: RehearsalPlan): Promise<ProvenProfile | null> {
  const { file, maxAgeMs } = profile;
  if (file === null) return null;
  return readProfile(resolve(command.folder, file), receipt.key, maxAgeMs, new Date());
}

async function inspect(
  { place, given, profile, afterClone, run }: Awaited<ReturnType<typeof readRequest>>,
  { target, session }: Visit,
  life: Lifetime,
  plan: RehearsalPlan,
): Promise<RehearsalContext> {
  const { located, environment } = place;
  // No session is at work on a server that was made for this run, and its disk says nothing.
  const isRestored = plan.target.from !== null;
  const context = await makeCloneContext(target, environment, life, plan, run);
  const compare = comparer(target.settings, context.signal);
  const { argv } = plan.command;
  const { databases } = plan.clone;
  const input = { argv, environment, target: target.settings, urlVariable: plan.target.urlEnv, databases };
  const command = { input, logins: await findLogins(input, compare) };
  const back = plan.checks.down === null ? null : { ...input, argv: ['sh', '-c', plan.checks.down] };
  const down = back && { input: back, logins: await findLogins(back, compare) };
  const apps = await locateApps(plan, input, compare);
  const readOnServer = async () => {
    const choice = await chooseMethod(context, plan.clone.method);
    refuseLoadInTarget(plan, choice);
    const asked = await askTarget(session, given, target.database.oid, plan.checks);
    const caveats = [...untriedCaveats(target.server.version), ...place.caveats, ...asked.caveats];
    const questions = { ...asked, caveats };
    const diskSpace = isRestored ? null : await readDiskSpace(session, target);
    return { choice, questions, diskSpace, stateBefore: await readTargetState(context, session) };
  };
  // At once: a sandbox is tried by starting processes, for 30 ms.
  const settings = withPlacesOf(target.settings, [located.settings]);
  const [sandbox, read] = await Promise.all([
    sandboxFor(plan, [command, ...(down ? [down] : []), ...apps], settings, context.control),
    readOnServer(),
  ]);
  return { context, settings: located.settings, command, down, apps, profile, afterClone, sandbox, ...read };
}

function untriedCaveats(version: string): Caveat[] {
  const reason = untriedVersion(version);
  return reason === undefined ? [] : [{ path: 'target.serverVersion', kind: 'estimate', reason }];
}

/** Load on a clone in the target's server would slow the target down. @throws SafemigrateError `CLONE` */
function refuseLoadInTarget({ load }: RehearsalPlan, { method, assessment }: Choice): void {
  if (!load || load.here || assessment.isolation === 'own-cluster') return;
  throw new SafemigrateError(
    'CLONE',
    `--load needs a clone on a server of its own, and ${method.id} makes it in the target's server.`,
    {
      hint: "See `safemigrate doctor` for what a clone on its own server lacks here, or permit load in the target's server with --permit load-here. The target was not touched.",
    },
  );
}

/** @throws SafemigrateError `SANDBOX` if the command could only be watched, and nothing names the target to it. */
export async function sandboxFor(
  plan: Pick<RehearsalPlan, 'command' | 'target'>,
  commands: readonly LocatedCommand[],
  settings: ConnectionSettings,
  control: Session,
): Promise<CommandSandbox> {
  const mentions = commands.flatMap(({ logins }) => logins.mentions.filter(({ namesServer }) => namesServer));
  return chooseSandbox({
    plan: plan.command.sandbox,
    settings: withPlacesOf(
      settings,
      mentions.map((mention) => mention.settings),
    ),
    control,
    workingFolder: plan.command.folder,
    trustFiles: filesOfAuthorities(
      commands.map(({ logins }) => effective(logins.variables)),
      [settings, ...mentions.map((mention) => mention.settings)],
      plan.command.folder,
    ),
    needsSockets: commands.some(({ logins }) => logins.undecided.length > 0),
    mayBeWatched: (reason) => {
      if (commands.every(({ input, logins }) => leadsToClone(input, logins))) return;
      throw unnamedTarget(plan.target.urlEnv, reason);
    },
  });
}
