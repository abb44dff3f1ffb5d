import { setTimeout as delay } from 'node:timers/promises';
import { messageOf, SafemigrateError } from '../../errors.ts';
import { formatDuration } from '../../format.ts';
import type { Caveat } from '../../model/report.ts';
import { ourStamp } from '../../ownership/process-stamp.ts';
import type { ConnectionSettings } from '../../postgres/connection/connection-settings.ts';
import { parseSettings } from '../../postgres/connection/connection-url.ts';
import { readEnvironment } from '../../postgres/connection/environment.ts';
import type { Scope } from '../../scope.ts';
import { openElsewhere, reachElsewhere } from '../elsewhere.ts';
import { differencesElsewhere } from '../elsewhere-differences.ts';
import type { Assessment, Clone, CloneContext, CloneMethod, Possible } from '../method.ts';
import type { CloneAddress, CloneOrder, CloneService, ServiceClone, SourceFacts } from './clone-service.ts';
import { destroyClone } from './destroy-clone.ts';
import { forwardTo } from './forward.ts';
import { cliOf } from './service-cli.ts';
import type { ListedService } from './service-list.ts';
import { nameOfClone, parseCloneName, serverDigits } from './service-name.ts';
import { removeServiceEntry, type ServiceEntry, writeServiceEntry } from './service-records.ts';
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

const LONGEST_CALL_MS = 30 * 60_000;
/** For a call that creates something and is interrupted: its effect could come after we have looked for it. */
const GRACE_MS = 10_000;
const FIRST_POLL_MS = 250;
const LONGEST_POLL_MS = 10_000;

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

function callsOf(service: CloneService, { signal, options }: CloneContext, graceMs = 0) {
  return cliOf(service, { signal, timeoutMs: Math.min(LONGEST_CALL_MS, options.ttlMs), graceMs });
}

async function create(
  service: ListedService,
  context: CloneContext,
  assessment: Possible,
  scope: Scope,
): Promise<Clone> {
  const started = performance.now();
  const { title, id } = service;
  const cli = callsOf(service, context);
  const order = orderOf(service, context);
  let entry = await entryOf(service, context, order);
  await scope.own(
    `clone at ${title}`,
    () => writeServiceEntry(entry),
    async () => {
      if (entry.kept) return;
      await destroyClone(service, order.source, order.name);
      await removeServiceEntry(entry);
    },
  );
  context.emit({ type: 'phase', phase: 'clone', detail: `by ${title}` });
  const facts = await service.inspect(cli, order.source);
  await service.create(callsOf(service, context, GRACE_MS), order, facts);
  const ready = await waitUntilReady(service, context, order, facts);
  const asOf = ready.asOf ?? facts.asOf;
  refuseOld(service, context, asOf);
  const { forward, ...named } = await service.address(cli, ready, order);
  const place = forward && (await forwardTo(service, forward, scope, context.signal));
  const settings = settingsOf(context, { ...named, ...place });
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
    durationMs: performance.now() - started,
    touched: [`${title} was asked for a clone of ${order.source.join('/')}`],
    service: { name: title, instance: facts.instance, asOf, readsLazily },
    caveats: [
      ...(await differencesElsewhere(context, reached.there, reasons)),
      ...(readsLazily ? [LAZY] : []),
    ],
    async keep() {
      entry = { ...entry, kept: true };
      await writeServiceEntry(entry);
      context.emit({
        type: 'notice',
        message: `the clone is kept at ${title} as ${order.name}, until ${order.expiresAt}`,
      });
    },
  };
}

const LAZY: Caveat = {
  path: 'statements[].durationMs',
  kind: 'estimate',
  reason: 'the clone fetches pages from a storage at their first use: times are upper bounds',
};

function orderOf(service: CloneService, context: CloneContext): CloneOrder {
  const { run, options, target } = context;
  const name = nameOfClone({
    run,
    place: serverDigits(addressOf(context)),
    ttlMs: options.ttlMs,
    kept: options.keep,
  });
  return {
    source: sourceOf(service, context),
    name,
    expiresAt: parseCloneName(name)?.expiresAt ?? '',
    database: target.database.name,
    user: target.settings.user,
  };
}

function addressOf({ target }: Pick<CloneContext, 'target'>): { host: string; port: number } {
  const [place = { host: '', port: 0 }] = target.settings.hosts;
  return place;
}

async function entryOf(
  { id }: ListedService,
  context: CloneContext,
  { source, name, database }: CloneOrder,
): Promise<ServiceEntry> {
  const { run } = context;
  const target = { ...addressOf(context), database };
  return { version: 1, run, service: id, source, name, target, kept: false, owner: await ourStamp() };
}

/** Waits for the clone, and completes one that is made in two steps. @throws SafemigrateError `CLONE` */
async function waitUntilReady(
  service: CloneService,
  context: CloneContext,
  order: CloneOrder,
  facts: SourceFacts,
): Promise<ServiceClone> {
  const { signal, options } = context;
  const { title } = service;
  const cli = callsOf(service, context);
  const deadline = performance.now() + options.ttlMs;
  let completed = false;
  for (let pollMs = FIRST_POLL_MS; ; pollMs = Math.min(LONGEST_POLL_MS, pollMs * 1.5)) {
    const clone = (await service.list(cli, order.source)).find(({ name }) => name === order.name);
    if (clone?.state === 'ready') return clone;
    if (clone?.state === 'failed' || clone?.state === 'deleting')
      throw new SafemigrateError('CLONE', `${title} could not make the clone: its state is ${clone.state}.`, {
        hint: `Look at ${order.name} with ${service.program}. The target was not touched.`,
      });
    if (clone?.state === 'incomplete' && !completed) {
      await service.complete?.(callsOf(service, context, GRACE_MS), order, facts);
      completed = true;
    }
    if (performance.now() >= deadline)
      throw new SafemigrateError(
        'CLONE',
        `${title} had not finished the clone after ${formatDuration(options.ttlMs)}, which is its lifetime.`,
        { hint: 'Give it more with SAFEMIGRATE_CLONE_TTL. The target was not touched.' },
      );
    await delay(pollMs, undefined, { signal }).catch((error: unknown) => {
      signal.throwIfAborted();
      throw error;
    });
  }
}

/** @throws SafemigrateError `CLONE` for a clone whose data is older than --limit clone-age, or of unknown age. */
function refuseOld({ title }: CloneService, { options }: CloneContext, asOf: string | null): void {
  const { maxAgeMs } = options;
  if (maxAgeMs === null) return;
  const ageMs = asOf === null ? null : Date.now() - Date.parse(asOf);
  if (ageMs !== null && ageMs <= maxAgeMs) return;
  const age = ageMs === null ? 'is of an unknown time' : `is ${formatDuration(ageMs)} old`;
  throw new SafemigrateError(
    'CLONE',
    `The data of the clone from ${title} ${age}, and --limit clone-age is ${formatDuration(maxAgeMs)}.`,
    { hint: 'Raise the limit, or clone in another way. The target was not touched.' },
  );
}

/** Connects to the clone as to the target, also with TLS as there, except for the parts that the service named. */
function settingsOf({ target: { settings } }: CloneContext, address: CloneAddress): ConnectionSettings {
  // A fixed address would lead to the target, whichever host is given.
  const { hostaddr: _, ...parameters } = settings.parameters;
  const { HOME } = process.env;
  const given =
    address.url === undefined
      ? undefined
      : parseSettings(address.url, readEnvironment({ HOME }, process.cwd()));
  const [place] = given?.hosts ?? [];
  const password = address.password ?? given?.password ?? settings.password;
  return {
    hosts: [{ host: address.host ?? place?.host ?? '', port: address.port ?? place?.port ?? 5432 }],
    user: address.user ?? given?.user ?? settings.user,
    ...(password === undefined ? {} : { password }),
    database: address.database ?? given?.database ?? settings.database,
    sslmode: address.sslmode ?? settings.sslmode,
    parameters,
  };
}
