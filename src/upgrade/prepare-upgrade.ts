import { cluster, copyOfCluster } from '../clone/cluster.ts';
import { majorOf } from '../clone/dump/destination.ts';
import type { CloneContext, Possible } from '../clone/method.ts';
import type { PrivateServer } from '../clone/private-cluster.ts';
import { serviceOfTarget } from '../clone/services/service-of-target.ts';
import { upgradesClones } from '../clone/services/upgrade-clone.ts';
import { resolveCommand } from '../command/resolve.ts';
import { findLogins } from '../command/rewrite.ts';
import { type CommandSandbox, UNWATCHED } from '../command/sandbox/command-sandbox.ts';
import type { Visit } from '../database/inspect.ts';
import { locateTarget } from '../database/locate.ts';
import { comparer } from '../database/same-target.ts';
import type { Target } from '../database/target.ts';
import { SafemigrateError } from '../errors.ts';
import type { ClientPrograms } from '../local-server/client-programs.ts';
import { UPGRADE_MODES } from '../model/upgrade-mode.ts';
import type { UpgradeSections } from '../model/upgrade-model.ts';
import { newRunId, type RunId } from '../ownership/run-id.ts';
import { type Environment, readEnvironment } from '../postgres/connection/environment.ts';
import { makeCloneContext, visitFirst } from '../rehearsal/clone-context.ts';
import { sandboxFor } from '../rehearsal/prepare.ts';
import { askTarget, type Given, type Questions, readGiven } from '../rehearsal/requested-checks.ts';
import type { LocatedCommand } from '../rehearsal/run-on-clone.ts';
import type { Lifetime } from '../rehearsal/with-scope.ts';
import { findNewPrograms, findOldPrograms, foldersOf } from './programs.ts';
import { readTargetFacts, type TargetClusterFacts } from './target-cluster.ts';
import type { UpgradePlan } from './upgrade-plan.ts';

/** All that is known before anything is copied. */
export interface PreparedUpgrade {
  readonly context: CloneContext;
  readonly assessment: Possible;
  readonly copy: PrivateServer;
  readonly oldPrograms: ClientPrograms;
  readonly newPrograms: ClientPrograms;
  /** The command that belongs to the upgrade; null if there is none. */
  readonly command: LocatedCommand | null;
  readonly sandbox: CommandSandbox;
  /** Questions to the database on both versions. */
  readonly questions: Questions;
  /** Facts that a copy of the files does not have. */
  readonly facts: TargetClusterFacts;
}

/**
 * Connects, checks the versions and programs, claims the run and finds how the cluster can be copied: in this order.
 * @throws SafemigrateError `REFUSED` if this is no upgrade; `SERVER` if programs are missing; `CLONE` if the cluster cannot be copied.
 */
export function prepareUpgrade(life: Lifetime, plan: UpgradePlan): Promise<PreparedUpgrade> {
  return visitToUpgrade(life, plan, (visited) => inspectForUpgrade(visited, life, plan));
}

/** Facts from before the target is read, and the visit to it. */
export interface VisitedTarget extends Visit {
  readonly run: RunId;
  readonly given: Given;
  readonly environment: Environment;
}

/** Reads the command and the files that the plan names, and connects to the target. */
export async function visitToUpgrade<T>(
  life: Lifetime,
  plan: UpgradePlan,
  inspect: (visited: VisitedTarget) => Promise<T>,
): Promise<T> {
  const { target: named, command } = plan;
  const environment = readEnvironment(command.env, command.folder);
  if (command.argv.length > 0)
    resolveCommand(command.argv, { path: environment.env.PATH ?? '', folder: environment.folder });
  const given = await readGiven(plan.checks, command.folder, null);
  const run = newRunId();
  return visitFirst(run, locateTarget(named, environment), life.stop, plan, (visit) =>
    inspect({ ...visit, run, given, environment }),
  );
}

/** All databases are copied with the cluster. */
const DATABASES = 'SELECT datname::text AS name FROM pg_database ORDER BY 1';

async function inspectForUpgrade(
  { run, given, environment, target, session }: VisitedTarget,
  life: Lifetime,
  plan: UpgradePlan,
): Promise<PreparedUpgrade> {
  const major = majorOf(target);
  refuseVersions(major, target, plan);
  const { method } = plan.clone;
  if (method !== 'auto' && method !== 'cluster')
    plan.emit({ type: 'notice', message: `the upgrade is tried on copies of the files, not by ${method}` });
  const newPrograms = await findNewPrograms(plan.to, plan.newBin);
  const made = await makeCloneContext(target, environment, life, plan, run);
  const databases = await session.query<{ name: string }>(DATABASES);
  const context = { ...made, options: { ...made.options, databases: databases.map(({ name }) => name) } };
  const assessment = await cluster.assess(context);
  if (!assessment.possible) {
    const service = await serviceOfTarget(target, session);
    const enable =
      service === undefined
        ? assessment.enable
        : `${service.title} gives out no files: let it upgrade a clone to ${plan.to} ${
            upgradesClones(service) ? `with --clone ${service.id}` : 'and rehearse on that (docs/upgrade.md)'
          }`;
    const hint = `${enable === undefined ? '' : `What would help: ${enable}. `}The target was not touched.`;
    throw new SafemigrateError('CLONE', `The cluster cannot be copied here: ${assessment.reason}.`, { hint });
  }
  const found = await copyOfCluster(context, assessment, life.scope);
  const oldPrograms = await findOldPrograms(major, plan.oldBin, found.programs);
  const libraries = [...(await foldersOf(newPrograms)), ...(await foldersOf(oldPrograms))];
  return {
    context,
    assessment,
    oldPrograms,
    newPrograms,
    copy: { ...found, libraries },
    ...(await locateCommand(context, environment, plan)),
    questions: await askTarget(session, given, target.database.oid, plan.checks, { ofCatalogs: true }),
    facts: await readTargetFacts(session),
  };
}

/** Finds the command's logins, and how its processes are kept from the target. */
export async function locateCommand(
  { target, signal, control, options: { databases } }: CloneContext,
  environment: Environment,
  plan: UpgradePlan,
): Promise<Pick<PreparedUpgrade, 'command' | 'sandbox'>> {
  const { argv } = plan.command;
  if (argv.length === 0) return { command: null, sandbox: UNWATCHED };
  const input = { argv, environment, target: target.settings, urlVariable: plan.target.urlEnv, databases };
  const command = { input, logins: await findLogins(input, comparer(target.settings, signal)) };
  return { command, sandbox: await sandboxFor(plan, [command], target.settings, control) };
}

export function refuseVersions(major: number, { server }: Target, { to, modes }: UpgradePlan): void {
  if (to < major)
    throw new SafemigrateError(
      'REFUSED',
      `The target is PostgreSQL ${server.version}, which is newer than ${to}: --to names the version to upgrade to.`,
      { hint: 'No way leads back to an older version but a dump. The target was not touched.' },
    );
  if (to === major)
    throw new SafemigrateError(
      'REFUSED',
      `The target is PostgreSQL ${server.version} already, so that --to ${to} is no major upgrade.`,
      { hint: 'Minor versions need no pg_upgrade: install them and restart. The target was not touched.' },
    );
  const unknown = modes.filter((mode) => !UPGRADE_MODES.includes(mode));
  if (unknown.length > 0 || modes.length === 0)
    throw new SafemigrateError('CONFIGURATION', '--modes names no mode of pg_upgrade.', {
      hint: `They are ${UPGRADE_MODES.join(', ')}. The target was not touched.`,
    });
}

/** Returns the facts about the target for the report. */
export function targetOfReport(
  { settings, database, source }: Target,
  databases: readonly { readonly sizeBytes: number }[],
): Omit<UpgradeSections['target'], 'touched'> {
  const [address] = settings.hosts;
  return {
    host: address?.host ?? '',
    port: address?.port ?? 0,
    database: database.name,
    source,
    databases: databases.length,
    sizeBytes: databases.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
  };
}
