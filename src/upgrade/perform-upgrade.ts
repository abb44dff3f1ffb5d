import { steadyDate } from '../clock.ts';
import { serviceNamed } from '../clone/services/service-list.ts';
import { inPhase } from '../events.ts';
import type { UpgradeReport, UpgradeSections } from '../model/upgrade-model.ts';
import { toolVersion } from '../package.ts';
import { type Lifetime, openSchemaReader, withScope } from '../rehearsal/with-scope.ts';
import { askOldVersion, loginsToCopy } from './ask-application.ts';
import { judgeUpgrade } from './judge-upgrade.ts';
import { type Clusters, makeNewCluster } from './new-cluster.ts';
import { findObstacles, type RuleRows, readRuleRows } from './obstacles/find-obstacles.ts';
import { librariesIn } from './obstacles/installed-parts.ts';
import { makeOldCluster, type OldCluster } from './old-cluster.ts';
import { checkUpgrade, type UpgradeCheck } from './pg-upgrade.ts';
import { type PreparedUpgrade, prepareUpgrade, targetOfReport } from './prepare-upgrade.ts';
import { type TriedMode, tryMode } from './try-mode.ts';
import { upgradeAtService } from './upgrade-at-service.ts';
import type { UpgradePlan } from './upgrade-plan.ts';
import { carriesStatistics } from './use-upgraded.ts';

// The rehearsal of a major upgrade, in the order of its steps:
//
//   prepareUpgrade       connect, check versions and programs, claim the run, find how the cluster can be copied
//   makeOldCluster       copy the cluster while it works, let the copy recover, read what may be in the way, ask what is to be asked
//                        again, shut it down
//   makeNewCluster       initdb of the new version with the old one's properties; what the new installation has
//   checkUpgrade         pg_upgrade --check
//   tryMode              for each mode, on a copy of both: pg_upgrade, start, statistics, the command that belongs to the upgrade;
//                        in the first that passes, whether schema, queries and checks are as before
//   findObstacles        by our rules, and by what pg_upgrade listed
//   judgeUpgrade         recommendation, verdict
//
// All of it lies in the one folder of the copy, which has an entry, a mark and a watchdog before it exists. If this process dies,
// the watchdog ends what runs there and removes the folder; if that dies as well, `safemigrate clean` does.

/**
 * Rehearses a major upgrade on copies of the target's cluster, or on a clone that a service upgrades, and removes them however it ends.
 * @throws SafemigrateError if there is nothing to report on.
 */
export async function rehearseUpgrade(plan: UpgradePlan): Promise<UpgradeReport> {
  const startedAt = steadyDate();
  const { result, cleanup } = await withScope(plan, (scope, stop) => upgradeWithin({ scope, stop }, plan));
  const { run: id, ...sections } = result;
  return {
    version: 1,
    run: {
      id,
      startedAt: startedAt.toISOString(),
      finishedAt: steadyDate().toISOString(),
      mode: 'upgrade',
      tool: { name: 'safemigrate', version: toolVersion() },
    },
    ...sections,
    cleanup,
  };
}

async function upgradeWithin(life: Lifetime, plan: UpgradePlan): Promise<UpgradeSections> {
  const { emit } = plan;
  const schema = await openSchemaReader(life.scope, plan);
  const service = await serviceNamed(plan.clone.method);
  if (service !== undefined) return upgradeAtService(life, plan, service, schema);
  const prepared = await prepareUpgrade(life, plan);
  const versions = { from: prepared.oldPrograms.major, to: plan.to };
  const { old, read } = await inPhase(emit, 'clone', () =>
    makeOldCluster(prepared, life.scope, async (server, facts, copy) => ({
      ruled: await readRuleRows(server, facts, versions),
      answers: await askOldVersion(prepared, loginsToCopy(prepared.context.target, copy), schema),
    })),
  );
  const { lease } = old.copy;
  const fresh = await inPhase(emit, 'initdb', () =>
    lease.during(() => makeNewCluster(prepared, old, librariesIn(read.ruled.rows))),
  );
  const clusters = { prepared, old, fresh, answers: read.answers };
  const check =
    fresh.refusal === null
      ? await inPhase(emit, 'check', () => lease.during(() => checkUpgrade(clusters, plan)))
      : null;
  const tried = check?.passed ? await tryModes(life, clusters, plan) : [];
  const modes = tried.map(({ section }) => section);
  const { command, application, rows, caveats } = summarize(tried);
  const obstacles = findObstacles({
    ...versions,
    target: prepared.facts,
    installed: fresh.facts,
    application,
    releases: { from: prepared.context.target.server.version, to: prepared.newPrograms.version },
    rows: new Map([...read.ruled.rows, ...rows]),
    files: check?.files ?? new Map(),
    refusal: check?.refusal ?? [],
    modes,
    initdbRefusal: fresh.refusal,
    ownSettings: old.copy.original.settings,
    missingLibraries: fresh.missingLibraries,
  });
  return {
    ...describeUpgrade(prepared, old),
    check: check && withoutFiles(check),
    modes,
    obstacles,
    command,
    application,
    carriesStatistics: carriesStatistics(plan.to),
    ...judgeUpgrade({ check, modes, obstacles }, plan),
    caveats: [
      ...[...old.copy.filled.caveats, ...read.ruled.caveats, ...fresh.caveats],
      ...[...prepared.questions.caveats, ...caveats],
    ],
  };
}

function withoutFiles({ passed, durationMs, output }: UpgradeCheck): UpgradeReport['check'] {
  return { passed, durationMs, output };
}

async function tryModes(life: Lifetime, clusters: Clusters, plan: UpgradePlan): Promise<TriedMode[]> {
  const tried: TriedMode[] = [];
  for (const mode of plan.modes) {
    const asks = !tried.some(({ used }) => used?.application);
    tried.push(
      await inPhase(
        plan.emit,
        'upgrade',
        () => clusters.old.copy.lease.during(() => tryMode(life, mode, clusters, plan, asks)),
        ({ section: { outcome } }) => outcome !== 'passed',
        mode,
      ),
    );
  }
  return tried;
}

function summarize(tried: readonly TriedMode[]): Pick<UpgradeSections, 'command' | 'application'> & RuleRows {
  const asked = tried.find(({ used }) => used?.application);
  const application = asked?.used?.application ?? null;
  const ran = tried.find(({ used }) => used?.command);
  const shown = tried.filter((each) => each === asked || each === ran);
  return {
    command: ran?.used?.command ?? null,
    application: asked && application ? { mode: asked.section.mode, ...application } : null,
    rows: asked?.used?.rows ?? new Map(),
    caveats: shown.flatMap(({ used }) => used?.caveats ?? []),
  };
}

function describeUpgrade(
  { context, assessment, oldPrograms, newPrograms }: PreparedUpgrade,
  { copy, facts, durationMs }: OldCluster,
): Pick<UpgradeSections, 'run' | 'target' | 'clone' | 'from' | 'to'> {
  const { folder: programs, major, version } = newPrograms;
  return {
    run: context.run,
    target: {
      ...targetOfReport(context.target, facts.databases),
      touched: [...copy.filled.touched],
    },
    clone: {
      strategy: assessment.strategy,
      containment: copy.sandbox.containment,
      durationMs,
      reason: assessment.reason,
    },
    from: { major: oldPrograms.major, version: context.target.server.version, programs: oldPrograms.folder },
    to: { major, version, programs },
  };
}
