import { SafemigrateError } from '../errors.ts';
import type { ClientPrograms } from '../local-server/client-programs.ts';
import { makeWorkFolder } from '../local-server/folder-cleaner.ts';
import { openMaintenanceSession } from '../ownership/control-session.ts';
import { droppingStatement } from '../ownership/drop.ts';
import { nameTarget } from '../ownership/folder-records.ts';
import { MadeDatabases } from '../ownership/made-databases.ts';
import { markerConnectionLimit } from '../ownership/run-id.ts';
import { clientEnvironment } from '../postgres/connection/client-environment.ts';
import { applicationName, openSession } from '../postgres/connection/connect.ts';
import type { Session } from '../postgres/connection/session.ts';
import { waitUntil, withSession } from '../postgres/session-helpers.ts';
import { identifier } from '../postgres/sql/quote.ts';
import type { Scope } from '../scope.ts';
import { assessDump, clientPrograms, workFolder } from './dump/assess-dump.ts';
import { type Destination, type DestinationKind, majorOf, openDestination } from './dump/destination.ts';
import { dumpCaveats, readDumpFacts, rolesOutOfReach, touches } from './dump/dump-facts.ts';
import {
  createEmpty,
  creatingStatement,
  giveToOwner,
  givingStatement,
  localeClause,
  readLocale,
} from './dump/empty-database.ts';
import type { TransferMode } from './dump/transfer.ts';
import { dumpWords, restoreWords, transfer } from './dump/transfer.ts';
import { cloneName, ownMarkedDatabase, plannedMarking } from './marked-database.ts';
import type { Clone, CloneContext, CloneMethod, Possible } from './method.ts';
import { carryingStatements, carryProperties, readProperties } from './properties.ts';

/** Clones by pg_dump and pg_restore: this works with any login, disturbs no session, and is the slowest method. */
export const dump: CloneMethod = {
  id: 'dump',
  leavesOutRows: true,
  assess: assessDump,
  create,
  describe,
};

const DATABASE_SIZE = 'SELECT pg_database_size($1::name)::int8 AS bytes';
const CHECK_INTERVAL = `SELECT current_setting('client_connection_check_interval') AS value`;

async function create(context: CloneContext, assessment: Possible, scope: Scope): Promise<Clone> {
  const started = performance.now();
  const { run, audit } = context;
  const kind = assessment.strategy as DestinationKind;
  const programs = await clientPrograms(context, kind);
  if ('reason' in programs) throw new SafemigrateError('CLONE', programs.reason, { hint: programs.enable });
  const facts = await readDumpFacts(context);
  const properties = await readProperties(context.control, context.target.database.oid);
  const there = await openDestination(context, kind, scope);
  const { control, target } = there;
  const missing = await rolesOutOfReach(control, target.server.versionNum, facts);
  const made = await makeEmpty(context, there, scope);
  const { owner, sharesOwnership: hasRightsOfOwner } = properties;
  if (kind === 'same-server' && hasRightsOfOwner) await giveToOwner(control, made.name, owner);
  const transferStarted = performance.now();
  const mode = await restoreInto(context, there, made.name, programs, missing.length > 0);
  const transferMs = performance.now() - transferStarted;
  if (!context.options.schemaOnly) await analyse(context, there, made.name);
  // On a private server we are the superuser, who may give databases to any role.
  const sharesOwnership = properties.sharesOwnership || kind === 'embedded-server';
  const notCarried = await carryProperties(control, made.name, { ...properties, sharesOwnership });
  await made.ready();
  return {
    method: 'dump',
    strategy: kind,
    isolation: assessment.isolation,
    containment: assessment.containment,
    reason: `${assessment.reason}; ${HOW[mode]}`,
    database: made.name,
    oid: made.oid,
    connect: { ...there.login, database: made.name },
    sharesRoles: kind !== 'rehearsal-server',
    server: { control, open: (purpose) => openMaintenanceSession(target, { run, audit, purpose }) },
    marking: made.marking,
    made: new MadeDatabases(run, control, made.record),
    durationMs: performance.now() - started,
    stallMs: 0,
    notCarried,
    touched: touches(context, kind, transferMs),
    caveats: [
      ...there.caveats,
      ...dumpCaveats(context, facts, { kind, missing, sameLocale: made.sameLocale }),
    ],
    uniqueBytes: () => sizeOf(control, made.name),
    keep: made.keep,
  };
}

const HOW: Record<TransferMode, string> = {
  directory: 'by several processes, through a folder',
  pipe: 'through a pipe',
};

/** Makes the database that the dump is restored into, which the end of the run disposes of. */
async function makeEmpty(context: CloneContext, there: Destination, scope: Scope) {
  const { database, server } = context.target;
  const locale = await readLocale(context.control, server.versionNum, database.oid);
  if (there.kind === 'embedded-server') return makeOnOwnServer(there, database.name, locale);
  const making = { ...there, run: context.run, audit: context.audit };
  const { control } = there;
  const { made: sameLocale, database: made } = await ownMarkedDatabase(
    making,
    'creating',
    () =>
      createEmpty(control, there.target.server.versionNum, {
        name: cloneName(making),
        locale,
        clauses: closedAtBirth(context),
      }),
    scope,
  );
  // From here on the mark identifies the owner, and the programs must be able to connect.
  await control.query(openingStatement(made.name));
  return {
    ...made,
    sameLocale,
    ready: () => made.updateMark({ state: 'ready' }),
    record: (databases: readonly string[]) => made.updateMark({ databases }),
    keep: () => made.updateMark({ kept: true }),
  };
}

async function makeOnOwnServer(
  { control, target }: Destination,
  name: string,
  locale: Parameters<typeof createEmpty>[2]['locale'],
) {
  const present = control.database === name;
  const sameLocale =
    present || (await createEmpty(control, target.server.versionNum, { name, locale, clauses: '' }));
  const [row] = await control.query<{ oid: string }>(
    'SELECT oid::int8 AS oid FROM pg_database WHERE datname = $1',
    [name],
  );
  return {
    name,
    sameLocale,
    oid: Number(row?.oid),
    marking: () => null,
    ready: async () => {},
    record: async () => {},
    // Refused before it is made: assess.ts.
    keep: async () => {},
  };
}

/** The statement that creates the database marks it, like each of ours: by name, connection limit and ALLOW_CONNECTIONS false. */
function closedAtBirth({ run }: CloneContext): string {
  return `ALLOW_CONNECTIONS false CONNECTION LIMIT ${markerConnectionLimit(run)}`;
}

function openingStatement(name: string): string {
  return `ALTER DATABASE ${identifier(name)} ALLOW_CONNECTIONS true`;
}

async function restoreInto(
  context: CloneContext,
  there: Destination,
  name: string,
  programs: ClientPrograms,
  withoutRoles: boolean,
): Promise<TransferMode> {
  const { run, audit, signal, emit, options, target } = context;
  const named = { applicationName: applicationName({ run, purpose: 'dump' }) };
  const [check] = await there.control.query<{ value: string }>(CHECK_INTERVAL);
  const sizeBytes = options.schemaOnly ? 0 : target.database.sizeBytes;
  const watcher = await openMaintenanceSession(there.target, { run, audit, purpose: 'progress' });
  try {
    const mode = await transfer({
      programs,
      options,
      sizeBytes,
      withoutRoles,
      signal,
      place: await makeWorkFolder(workFolder(context), 'dump', nameTarget(context.target)),
      from: {
        environment: clientEnvironment((context.source ?? target).settings, named),
        database: target.database.name,
      },
      to: {
        environment: clientEnvironment(there.owner, {
          ...named,
          // Reset when the programs end, so that the server ends their statements with them.
          settings: {
            client_connection_check_interval: check?.value ?? '0',
            default_transaction_read_only: 'off',
          },
        }),
        database: name,
      },
      withoutTablespaces: there.kind !== 'same-server',
      async onProgress(dumpedBytes) {
        const restored = await sizeOf(watcher, name).catch(() => 0);
        const of = sizeBytes * (dumpedBytes > 0 ? 2 : 1);
        const done = Math.min(dumpedBytes + restored, of);
        if (of > 0) emit({ type: 'progress', phase: 'clone', done, of, unit: 'bytes' });
      },
    });
    await untilGone(context, named.applicationName);
    return mode;
  } finally {
    await watcher.close();
  }
}

const STILL_THERE = 'SELECT FROM pg_stat_activity WHERE datid = $1 AND application_name = $2';
const GONE_WITHIN_MS = 1_000;

/** The server's counters include a session's work once it has left pg_stat_activity. Behind a pooler it may stay. */
async function untilGone({ control, target }: CloneContext, application: string): Promise<void> {
  const isGone = async () =>
    (await control.query(STILL_THERE, [target.database.oid, application])).length === 0;
  await waitUntil(isGone, { everyMs: 10, timeoutMs: GONE_WITHIN_MS });
}

async function sizeOf(session: Session, name: string): Promise<number> {
  const [row] = await session.query<{ bytes: string }>(DATABASE_SIZE, [name]);
  return Number(row?.bytes ?? 0);
}

/** Without ANALYZE, plans would not match the target's. */
async function analyse(
  { run, audit, signal }: CloneContext,
  there: Destination,
  name: string,
): Promise<void> {
  const options = { run, audit, signal, purpose: 'analyze', database: name, statementTimeoutMs: 0 };
  await withSession(openSession(there.owner, options), (session) => session.query('ANALYZE'));
}

async function describe(context: CloneContext, { strategy }: Possible): Promise<string[]> {
  const kind = strategy as DestinationKind;
  const programs = await clientPrograms(context, kind);
  if ('reason' in programs) return [];
  const { control, target } = context;
  const properties = await readProperties(control, target.database.oid);
  const ground = context.rehearsal ?? context;
  const making = { ...context, ...ground, target: { ...ground.target, database: target.database } };
  const name = kind === 'embedded-server' ? target.database.name : cloneName(making);
  const order = {
    programs,
    options: context.options,
    withoutTablespaces: kind !== 'same-server',
    from: { environment: {}, database: target.database.name },
    to: { environment: {}, database: name },
    withoutRoles:
      kind !== 'embedded-server' &&
      (await rolesOutOfReach(ground.control, ground.target.server.versionNum, await readDumpFacts(context)))
        .length > 0,
  };
  const dumping = `-- run: ${dumpWords(order, 'pipe', 1, '').join(' ')}`;
  if (kind === 'embedded-server') return [dumping];
  const locale = await readLocale(control, target.server.versionNum, target.database.oid);
  const clauses = `${localeClause(locale, majorOf(ground.target) * 10_000)} ${closedAtBirth(context)}`;
  return [
    creatingStatement(name, clauses),
    plannedMarking(making, 'creating'),
    openingStatement(name),
    ...(kind === 'same-server' && properties.sharesOwnership
      ? [givingStatement(name, properties.owner)]
      : []),
    dumping,
    `-- run: ${restoreWords(order, 'pipe', 1, '').join(' ')}`,
    ...(context.options.schemaOnly ? [] : ['ANALYZE']),
    ...carryingStatements(name, properties),
    plannedMarking(making, 'ready'),
    droppingStatement(name),
  ];
}
