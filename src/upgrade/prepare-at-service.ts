import { chooseMethod } from '../clone/choose.ts';
import { majorOf } from '../clone/dump/destination.ts';
import type { Possible } from '../clone/method.ts';
import type { SourceFacts } from '../clone/services/clone-service.ts';
import { callsOf } from '../clone/services/order-clone.ts';
import { allServices, type ListedService } from '../clone/services/service-list.ts';
import { sourceOf } from '../clone/services/service-source.ts';
import { offeredRelease, type UpgradingService, upgradesClones } from '../clone/services/upgrade-clone.ts';
import { SafemigrateError } from '../errors.ts';
import { listed } from '../format.ts';
import { makeCloneContext } from '../rehearsal/clone-context.ts';
import { askTarget } from '../rehearsal/requested-checks.ts';
import type { Lifetime } from '../rehearsal/with-scope.ts';
import {
  locateCommand,
  type PreparedUpgrade,
  refuseVersions,
  type VisitedTarget,
  visitToUpgrade,
} from './prepare-upgrade.ts';
import type { TargetClusterFacts } from './target-cluster.ts';
import type { UpgradePlan } from './upgrade-plan.ts';

/** All that is known before the clone is made. */
export interface PreparedAtService
  extends Pick<PreparedUpgrade, 'context' | 'command' | 'sandbox' | 'questions'> {
  readonly service: UpgradingService;
  readonly assessment: Possible;
  readonly release: string;
  readonly facts: SourceFacts;
  readonly slots: TargetClusterFacts['slots'];
}

/** @throws SafemigrateError `CLONE` for a service that is not asked to upgrade a clone. */
async function requireUpgrading(service: ListedService): Promise<UpgradingService> {
  if (upgradesClones(service)) return service;
  const able = (await allServices()).filter(upgradesClones).map(({ id }) => id);
  throw new SafemigrateError(
    'CLONE',
    `--clone ${service.id} makes no clone that ${service.title} upgrades.`,
    {
      hint: `These do: ${listed(able)}. Otherwise let the service upgrade a clone, and rehearse on that (docs/upgrade.md). The target was not touched.`,
    },
  );
}

/**
 * Connects, checks the versions, claims the run, and finds the release to which the service upgrades: in this order.
 * @throws SafemigrateError `REFUSED` unless this is an upgrade; `CLONE` if the service cannot clone, or offers no such release.
 */
export async function prepareAtService(
  life: Lifetime,
  plan: UpgradePlan,
  named: ListedService,
): Promise<PreparedAtService> {
  const service = await requireUpgrading(named);
  return visitToUpgrade(life, plan, (visited) => inspectForService(visited, life, plan, service));
}

const LOGICAL_SLOTS = `
SELECT slot_name::text AS name, slot_type AS type, database::text FROM pg_replication_slots
 WHERE NOT temporary AND slot_type = 'logical' ORDER BY 1`;

async function inspectForService(
  { run, given, environment, target, session }: VisitedTarget,
  life: Lifetime,
  plan: UpgradePlan,
  service: UpgradingService,
): Promise<PreparedAtService> {
  refuseVersions(majorOf(target), target, plan);
  const context = await makeCloneContext(target, environment, life, plan, run);
  const { assessment } = await chooseMethod(context, service.id);
  const source = sourceOf(service, context);
  const facts = await service.inspect(callsOf(service, context), source);
  return {
    context,
    service,
    assessment,
    facts,
    release: await offeredRelease(service, context, source, facts, plan.to),
    ...(await locateCommand(context, environment, plan)),
    questions: await askTarget(session, given, target.database.oid, plan.checks, { ofCatalogs: true }),
    slots: await session.query<TargetClusterFacts['slots'][number]>(LOGICAL_SLOTS),
  };
}
