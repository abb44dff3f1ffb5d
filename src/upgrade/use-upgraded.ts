import path from 'node:path';
import type { CloneContext } from '../clone/method.ts';
import { forOwnSessions } from '../clone/own-sessions.ts';
import { targetThere } from '../clone/private/private-server.ts';
import { cloneOn } from '../clone/private-cluster.ts';
import { startCopied } from '../local-server/copied.ts';
import type { Caveat } from '../model/report.ts';
import type { ApplicationSection, PostUpgradeCommand, UpgradePhase } from '../model/upgrade-model.ts';
import { openMaintenanceSession } from '../ownership/control-session.ts';
import type { Session } from '../postgres/connection/session.ts';
import type { Lifetime } from '../rehearsal/with-scope.ts';
import { askNewVersion, compareUpgradedSchema, loginsToCopy } from './ask-application.ts';
import type { Clusters } from './new-cluster.ts';
import { type RuleRows, readRuleRows } from './obstacles/find-obstacles.ts';
import { serverIn } from './old-cluster.ts';
import { runPostUpgrade } from './post-upgrade-command.ts';
import type { PreparedUpgrade } from './prepare-upgrade.ts';
import { runWell, type SandboxedRun, untilAborted } from './sandboxed-programs.ts';
import type { UpgradePlan } from './upgrade-plan.ts';

/** From this version on pg_upgrade carries the planner's statistics over, and vacuumdb finds what is missing. */
const CARRIES_STATISTICS = 18;

export function carriesStatistics(major: number): boolean {
  return major >= CARRIES_STATISTICS;
}

/** Results from an upgraded server. Rows of the rules were read only if the application was to be tried. */
export interface UsedServer extends RuleRows {
  readonly phases: readonly UpgradePhase[];
  readonly command: PostUpgradeCommand | null;
  /** null unless it was asked for. */
  readonly application: Omit<ApplicationSection, 'mode'> | null;
}

/**
 * Starts the upgraded server, has its statistics made, runs the command that belongs to the upgrade, and stops the server.
 * @param asks whether the application is to be tried here.
 */
export async function useUpgraded(
  life: Lifetime,
  clusters: Clusters,
  plan: UpgradePlan,
  { place, asks }: { readonly place: string; readonly asks: boolean },
): Promise<UsedServer> {
  const { prepared, old, fresh } = clusters;
  const { sandbox, copy } = old;
  const data = path.join(place, 'new');
  const started = performance.now();
  const settings = { ...fresh.settings, data_directory: data };
  const programs = prepared.newPrograms.folder;
  const server = await copy.lease.during(() =>
    startCopied({ ...sandbox, programs, data, log: path.join(place, 'new.log'), settings }),
  );
  const start = phase('start', performance.now() - started, true);
  const context = onNewVersion(prepared.context, prepared.newPrograms);
  const control = await openMaintenanceSession(
    targetThere(context.target, copy.place, copy.original.superuser),
    { ...context, purpose: 'clone control' },
  );
  try {
    const used = await workOn(life, clusters, plan, { context, control, asks });
    return { ...used, phases: [start, ...used.phases] };
  } finally {
    await control.close();
    await copy.lease.during(() => untilAborted(server.stop(), sandbox.signal));
  }
}

/** The target as it is on the new version. */
export function onNewVersion(
  context: CloneContext,
  { major, version }: Pick<PreparedUpgrade['newPrograms'], 'major' | 'version'>,
): CloneContext {
  const minor = Number(version.split('.')[1] ?? 0) || 0;
  const server = { ...context.target.server, version, versionNum: major * 10_000 + minor };
  return { ...context, target: { ...context.target, server } };
}

const NOT_COMPARED = { schemaChanges: null, unmodeled: null };

async function workOn(
  life: Lifetime,
  clusters: Clusters,
  plan: UpgradePlan,
  { context, control, asks }: { context: CloneContext; control: Session; asks: boolean },
): Promise<UsedServer> {
  const {
    prepared,
    old: { copy, facts },
    answers,
  } = clusters;
  const caveats: Caveat[] = [];
  const { schema: login } = loginsToCopy(context.target, copy);
  const schema = asks ? await compareUpgradedSchema(login, answers, caveats) : NOT_COMPARED;
  const statistics = await makeStatistics(clusters, plan);
  const clone = { ...cloneOn(context, prepared.copy, copy, control), durationMs: 0, caveats: [] };
  const { command, caveats: ofCommand } = await runPostUpgrade(
    ...([life, plan, context, clone, prepared, answers.schema] as const),
  );
  caveats.push(...ofCommand);
  const ran = command === null ? [] : [phase('command', command.durationMs, true)];
  if (!asks || (command !== null && command.exitCode !== 0))
    return { phases: [...statistics, ...ran], command, application: null, rows: new Map(), caveats };
  const own = { connect: forOwnSessions(clone, context.target), sharesRoles: true };
  const { queries, checks, caveats: more } = await askNewVersion(context, own, answers);
  const server = serverIn(copy.place.socketFolder, copy.original.superuser, context);
  const versions = { from: prepared.oldPrograms.major, to: prepared.newPrograms.major };
  const { rows, caveats: unread } = await readRuleRows(server, facts, versions, true);
  return {
    phases: [...statistics, ...ran],
    command,
    application: { queries, checks, ...schema },
    rows,
    caveats: [...caveats, ...more, ...unread],
  };
}

async function makeStatistics({ prepared, old }: Clusters, { jobs }: UpgradePlan): Promise<UpgradePhase[]> {
  const { sandbox, copy, facts } = old;
  const { folder: programs, major } = prepared.newPrograms;
  const login = ['-h', copy.place.socketFolder, '-p', '5432', '-U', facts.superuser, '-j', String(jobs)];
  const missing = carriesStatistics(major) ? ['--missing-stats-only'] : [];
  const vacuumdb = path.join(programs, 'vacuumdb');
  const analyzed = await runWell(sandbox, [vacuumdb, '--all', '--analyze-in-stages', ...missing, ...login]);
  const first = endOfFirstStage(analyzed);
  return [
    // Without any statistics the plans are too bad to work with.
    phase('first statistics', first, !carriesStatistics(major)),
    phase('statistics', analyzed.durationMs - first, false),
  ];
}

/** vacuumdb goes through all databases in each of its three stages, and names the stage. */
export function endOfFirstStage({ lines, durationMs }: SandboxedRun): number {
  return lines.find(({ text }) => text.includes('(10 targets)'))?.atMs ?? durationMs;
}

export function phase(name: UpgradePhase['name'], durationMs: number, down: boolean): UpgradePhase {
  return { name, durationMs, down, steps: [] };
}
