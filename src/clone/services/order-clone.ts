import { setTimeout as delay } from 'node:timers/promises';
import { SafemigrateError } from '../../errors.ts';
import { formatDuration } from '../../format.ts';
import { ourStamp } from '../../ownership/process-stamp.ts';
import type { ConnectionSettings } from '../../postgres/connection/connection-settings.ts';
import { parseSettings } from '../../postgres/connection/connection-url.ts';
import { readEnvironment } from '../../postgres/connection/environment.ts';
import type { Scope } from '../../scope.ts';
import type { CloneContext } from '../method.ts';
import type { CloneAddress, CloneOrder, CloneService, ServiceClone, SourceFacts } from './clone-service.ts';
import { destroyClone } from './destroy-clone.ts';
import { forwardTo } from './forward.ts';
import { cliOf } from './service-cli.ts';
import type { ListedService } from './service-list.ts';
import { nameOfClone, parseCloneName, serverDigits } from './service-name.ts';
import { removeServiceEntry, type ServiceEntry, writeServiceEntry } from './service-records.ts';
import { sourceOf } from './service-source.ts';

/** A clone that a service has made for this run, and that can be used. */
export interface OrderedClone {
  readonly order: CloneOrder;
  readonly facts: SourceFacts;
  readonly ready: ServiceClone;
  /** Time of its data, in ISO 8601; null if it is not known. */
  readonly asOf: string | null;
  /** From now on the end of the run leaves it where it is. */
  keep(): Promise<void>;
}

const LONGEST_CALL_MS = 30 * 60_000;
/** For a call that changes something and is interrupted: its effect could come after we have looked for it. */
export const GRACE_MS = 10_000;
const FIRST_POLL_MS = 250;
const LONGEST_POLL_MS = 10_000;

/** The command line for one call of a run. @param graceMs as cliOf() has it. */
export function callsOf(service: CloneService, { signal, options }: CloneContext, graceMs = 0) {
  return cliOf(service, { signal, timeoutMs: Math.min(LONGEST_CALL_MS, options.ttlMs), graceMs });
}

/** Has the service make a clone, which the scope removes. @throws SafemigrateError `CLONE` */
export async function orderClone(
  service: ListedService,
  context: CloneContext,
  scope: Scope,
): Promise<OrderedClone> {
  const { title } = service;
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
  const facts = await service.inspect(callsOf(service, context), order.source);
  await service.create(callsOf(service, context, GRACE_MS), order, facts);
  const ready = await waitUntilReady(service, context, order, facts);
  const asOf = ready.asOf ?? facts.asOf;
  refuseOld(service, context, asOf);
  return {
    order,
    facts,
    ready,
    asOf,
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
function waitUntilReady(
  service: CloneService,
  context: CloneContext,
  order: CloneOrder,
  facts: SourceFacts,
): Promise<ServiceClone> {
  const { title, program } = service;
  let completed = false;
  return pollClone(
    service,
    context,
    order,
    { of: 'the clone', forMs: context.options.ttlMs },
    async (clone) => {
      if (clone?.state === 'ready') return clone;
      if (clone?.state === 'failed' || clone?.state === 'deleting')
        throw new SafemigrateError(
          'CLONE',
          `${title} could not make the clone: its state is ${clone.state}.`,
          {
            hint: `Look at ${order.name} with ${program}. The target was not touched.`,
          },
        );
      if (clone?.state === 'incomplete' && !completed) {
        await service.complete?.(callsOf(service, context, GRACE_MS), order, facts);
        completed = true;
      }
      return undefined;
    },
  );
}

/**
 * Lists the clone again and again until there is an answer.
 * @param work.of name of the work, for a message. @param work.forMs the longest wait.
 * @throws SafemigrateError `CLONE` if it takes longer; the signal's reason.
 */
export async function pollClone<T>(
  service: CloneService,
  context: CloneContext,
  { source, name }: Pick<CloneOrder, 'source' | 'name'>,
  work: { readonly of: string; readonly forMs: number },
  answer: (clone: ServiceClone | undefined) => Promise<T | undefined> | T | undefined,
): Promise<T> {
  const { signal, options } = context;
  const cli = callsOf(service, context);
  const deadline = performance.now() + work.forMs;
  for (let pollMs = FIRST_POLL_MS; ; pollMs = Math.min(LONGEST_POLL_MS, pollMs * 1.5)) {
    const clone = (await service.list(cli, source)).find((each) => each.name === name);
    const answered = await answer(clone);
    if (answered !== undefined) return answered;
    if (performance.now() >= deadline)
      throw new SafemigrateError(
        'CLONE',
        `${service.title} had not finished ${work.of} after ${formatDuration(options.ttlMs)}, which is its lifetime.`,
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

/** Returns how to connect to the clone, through a forwarded port if the service has one forwarded. */
export async function loginAtService(
  service: CloneService,
  context: CloneContext,
  { order, ready }: Pick<OrderedClone, 'order' | 'ready'>,
  scope: Scope,
): Promise<ConnectionSettings> {
  const { forward, ...named } = await service.address(callsOf(service, context), ready, order);
  const place = forward && (await forwardTo(service, forward, scope, context.signal));
  return settingsOf(context, { ...named, ...place });
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
