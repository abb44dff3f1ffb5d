import { majorOf } from '../clone/dump/destination.ts';
import { loginAtService } from '../clone/services/order-clone.ts';
import type { ListedService } from '../clone/services/service-list.ts';
import { type CloneUpgrade, upgradeClone } from '../clone/services/upgrade-clone.ts';
import { inPhase } from '../events.ts';
import type { Caveat } from '../model/report.ts';
import type { ModeSection, UpgradeSections } from '../model/upgrade-model.ts';
import type { Lifetime } from '../rehearsal/with-scope.ts';
import type { SchemaWatch } from '../schema/schema-watch.ts';
import { judgeUpgrade } from './judge-upgrade.ts';
import type { NewFacts } from './new-cluster.ts';
import { findObstacles } from './obstacles/find-obstacles.ts';
import { makeOldClone, type OldClone } from './old-clone.ts';
import { type PreparedAtService, prepareAtService } from './prepare-at-service.ts';
import { targetOfReport } from './prepare-upgrade.ts';
import { whyCommandFailed } from './try-mode.ts';
import type { UpgradePlan } from './upgrade-plan.ts';
import { carriesStatistics } from './use-upgraded.ts';
import { type UsedClone, useUpgradedClone } from './use-upgraded-clone.ts';

// The rehearsal of a service's own upgrade, in the order of its steps:
//
//   prepareAtService     connect, check versions, find the release that the service offers, claim the run
//   makeOldClone         have the service make a clone; look for obstacles, ask the questions of both versions
//   upgradeClone         have the service upgrade that clone, and wait
//   useUpgradedClone     statistics, the command that belongs to the upgrade; whether schema, queries and checks are as before
//   findObstacles        by our rules, and by the service's log
//   judgeUpgrade         verdict
//
// The clone has its name, its marks and its record before it exists, as in a rehearsal, so that `safemigrate clean` finds it.

/**
 * Rehearses a major upgrade on a clone that the service makes and upgrades.
 * @throws SafemigrateError `CLONE` if the service cannot; `NOT_OURS` if the clone is not the one that was made.
 */
export async function upgradeAtService(
  life: Lifetime,
  plan: UpgradePlan,
  service: ListedService,
  schema: SchemaWatch,
): Promise<UpgradeSections> {
  const { emit } = plan;
  const prepared = await prepareAtService(life, plan, service);
  const { context, release } = prepared;
  const old = await inPhase(emit, 'clone', () => makeOldClone(life, plan, prepared, schema));
  const ended = await inPhase(
    emit,
    'upgrade',
    () => upgradeClone(prepared.service, context, old.ordered, release),
    ({ upgraded }) => upgraded === null,
    service.title,
  );
  if (ended.upgraded === null) return describe(plan, prepared, old, ended, null);
  const ready = { ...old.ordered, ready: ended.upgraded };
  const settings = await loginAtService(service, context, ready, life.scope);
  const used = await useUpgradedClone(life, plan, prepared, { ...old, ordered: ready, settings });
  return describe(plan, prepared, old, ended, used);
}

/** A section for the one mode that there is. */
function modeOf(title: string, ended: CloneUpgrade, used: UsedClone | null): ModeSection {
  const upgrade = { name: 'service' as const, durationMs: ended.durationMs, down: true, steps: [] };
  const not = { mode: 'service' as const, downtimeMs: null, peakBytes: null, wayBack: false };
  if (ended.upgraded === null || used === null) {
    const events = ended.upgraded === null ? [ended.reason, ...ended.events] : [];
    return {
      ...not,
      outcome: 'failed',
      reason: `${title} did not upgrade the clone: ${events.join('; ')}`,
      phases: [],
    };
  }
  const phases = [upgrade, ...used.phases];
  const reason = whyCommandFailed(used.command);
  if (reason !== null) return { ...not, outcome: 'failed', reason, phases };
  const downtimeMs = phases.reduce((sum, { down, durationMs }) => sum + (down ? durationMs : 0), 0);
  return { ...not, outcome: 'passed', reason: null, phases, downtimeMs };
}

/** How the copies of files are judged does not concern a service, which sees to it itself. */
const NOT_AT_SERVICES = new Set(['CHECKSUMS_OFF']);

/** Finds obstacles on the old version and, if the upgrade succeeded, on the new one. */
function obstaclesOf(
  { to }: UpgradePlan,
  { context, release, slots }: PreparedAtService,
  { rows, installed }: OldClone,
  ended: CloneUpgrade,
  used: UsedClone | null,
  modes: readonly ModeSection[],
) {
  const { target } = context;
  const refusal = ended.upgraded === null ? (ended.log.length > 0 ? ended.log : ended.events) : [];
  const facts: NewFacts = { ...(used?.installed ?? installed), absentLibraries: new Set() };
  const asked = [...rows, ...(used?.rows ?? [])].filter(([code]) => !NOT_AT_SERVICES.has(code));
  return findObstacles({
    from: majorOf(target),
    to,
    modes,
    refusal,
    installed: facts,
    rows: new Map(asked),
    releases: { from: target.server.version, to: release },
    // The service takes care of replicas and of the places of files.
    target: { slots, standbys: [], tablespacesInside: [], loginMethods: null },
    application: used?.application ? { mode: 'service', ...used.application } : null,
    files: new Map(),
    initdbRefusal: null,
    ownSettings: new Map(),
    missingLibraries: [],
  });
}

const UPPER_BOUND: Caveat = {
  path: 'modes[].downtimeMs',
  kind: 'estimate',
  reason:
    'an upper bound: it is the time from the order until the service called the upgraded clone ready, and the old version works in a part of it',
};
const NOT_COMPARED: Caveat = {
  path: 'obstacles',
  kind: 'unmeasured',
  reason:
    'without an upgraded clone it is not known which extensions, settings and reserved words the new version has',
};

function describe(
  plan: UpgradePlan,
  prepared: PreparedAtService,
  old: OldClone,
  ended: CloneUpgrade,
  used: UsedClone | null,
): UpgradeSections {
  const { context, service, assessment, release, facts, questions } = prepared;
  const modes = [modeOf(service.title, ended, used)];
  const obstacles = obstaclesOf(plan, prepared, old, ended, used, modes);
  const { order, asOf } = old.ordered;
  const differences = ended.differences.map(
    (reason): Caveat => ({ path: 'clone', kind: 'estimate', reason }),
  );
  return {
    run: context.run,
    target: {
      ...targetOfReport(context.target, old.databases),
      touched: [`${service.title} was asked for a clone of ${order.source.join('/')}`],
    },
    clone: {
      strategy: assessment.strategy,
      containment: assessment.containment,
      durationMs: old.durationMs,
      reason: assessment.reason,
      service: {
        name: service.title,
        instance: facts.instance,
        asOf,
        readsLazily: facts.readsLazily ?? service.readsLazily,
      },
    },
    from: { major: majorOf(context.target), version: context.target.server.version, programs: null },
    to: { major: plan.to, version: release, programs: null },
    check: null,
    modes,
    obstacles,
    command: used?.command ?? null,
    application: used?.application ? { mode: 'service', ...used.application } : null,
    carriesStatistics: carriesStatistics(plan.to),
    ...judgeUpgrade({ check: null, modes, obstacles }, plan),
    caveats: [
      ...(used === null ? [NOT_COMPARED] : [UPPER_BOUND, ...used.caveats]),
      ...[...differences, ...old.caveats, ...questions.caveats],
    ],
  };
}
