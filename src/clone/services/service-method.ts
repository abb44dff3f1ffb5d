import { messageOf, SafemigrateError } from '../../errors.ts';
import type { Caveat } from '../../model/report.ts';
import type { ConnectionSettings } from '../../postgres/connection/connection-settings.ts';
import type { Scope } from '../../scope.ts';
import { openElsewhere, reachElsewhere } from '../elsewhere.ts';
import { differencesElsewhere } from '../elsewhere-differences.ts';
import type { Assessment, Clone, CloneContext, CloneMethod, Possible } from '../method.ts';
import type { CloneService } from './clone-service.ts';
import { callsOf, loginAtService, type OrderedClone, orderClone } from './order-clone.ts';
import type { ListedService } from './service-list.ts';
import { sourceOf } from './service-source.ts';

/** Makes a clone method of a service. */
export function serviceMethod(service: ListedService): CloneMethod {
  return {
    id: service.id,
    assess: (context) => assess(service, context),
    create: (context, assessment, scope) => create(service, context, assessment, scope),
    describe: async (context) => [
      `-- ${service.title}: ${service.program} clones ${sourceOf(service, context).join('/')}, and removes the clone at the end`,
    ],
  };
}

async function assess(service: CloneService, context: CloneContext): Promise<Assessment> {
  const { title, program, strategy, readyMs, login } = service;
  try {
    await service.inspect(callsOf(service, context), sourceOf(service, context));
  } catch (error) {
    context.signal.throwIfAborted();
    if (!(error instanceof SafemigrateError)) throw error;
    const enable = error.hint?.replace(/ The target was not touched\.$/, '') ?? `log in with \`${login}\``;
    return { possible: false, reason: messageOf(error), enable };
  }
  return {
    possible: true,
    strategy,
    readyMs,
    stallMs: 0,
    bytes: 0,
    endsSessions: false,
    asked: true,
    isolation: 'own-cluster',
    containment: 'other-server',
    reason: `made by ${title}, with the login of ${program}`,
  };
}

async function create(
  service: ListedService,
  context: CloneContext,
  assessment: Possible,
  scope: Scope,
): Promise<Clone> {
  const started = performance.now();
  const ordered = await orderClone(service, context, scope);
  const settings = await loginAtService(service, context, ordered, scope);
  const opened = await openAtService(service, context, ordered, settings, assessment, scope);
  return { ...opened, durationMs: performance.now() - started };
}

/** Opens a clone that the service has made. */
export async function openAtService(
  service: ListedService,
  context: CloneContext,
  { order, facts, asOf, keep }: OrderedClone,
  settings: ConnectionSettings,
  assessment: Possible,
  scope: Scope,
): Promise<Omit<Clone, 'durationMs'>> {
  const { title, id } = service;
  const reached = await reachElsewhere(context, settings, {
    source: title,
    says: `${title} named`,
    afterwards: `the clone at ${title} is removed.`,
  });
  const opened = await openElsewhere(context, reached, scope);
  const readsLazily = facts.readsLazily ?? service.readsLazily;
  const reasons = [
    `the clone is a server of ${title}: its hardware, settings and load differ from the target's`,
  ];
  return {
    ...opened,
    method: id,
    strategy: assessment.strategy,
    reason: assessment.reason,
    touched: [`${title} was asked for a clone of ${order.source.join('/')}`],
    service: { name: title, instance: facts.instance, asOf, readsLazily },
    caveats: [
      ...(await differencesElsewhere(context, reached.there, reasons)),
      ...(readsLazily ? [LAZY] : []),
    ],
    keep,
  };
}

const LAZY: Caveat = {
  path: 'statements[].durationMs',
  kind: 'estimate',
  reason: 'the clone fetches pages from a storage at their first use: times are upper bounds',
};
