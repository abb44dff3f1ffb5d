import { SafemigrateError } from '../errors.ts';
import { formatDuration, plural } from '../format.ts';
import type { Limit } from '../report/model.ts';
import type { Scope } from '../scope.ts';
import { identifier, literal } from '../sql.ts';
import { openSession } from '../target/connect.ts';
import type { Session } from '../target/session.ts';
import { openMaintenanceSession, openMaintenanceSessionPatiently } from '../upkeep/claim.ts';
import { dropOwnedDatabase, droppingStatement } from '../upkeep/drop.ts';
import { MadeDatabases } from '../upkeep/made-databases.ts';
import { formatMark, type Mark, ownedName } from '../upkeep/mark.ts';
import type { Clone, CloneContext, CloneMethod, Possible } from './method.ts';
import { carryingStatements, carryProperties, readProperties } from './properties.ts';
import { assessTemplate } from './template/assess.ts';
import { createFromTemplate, type Made, plannedStatements } from './template/create.ts';
import type { Strategy } from './template/estimate.ts';

/** CREATE DATABASE … TEMPLATE inside the target's own server, or of a copy of the target inside another one. */
export const template: CloneMethod = {
  id: 'template',
  assess: (context) => assessTemplate(onGround(context)),
  create: (context, assessment, scope) => create(onGround(context), assessment, scope),
  describe: (context, assessment) => describe(onGround(context), assessment),
};

/** The database that was named on another server is a copy of the target that exists already: it is what is cloned. */
function onGround(context: CloneContext): CloneContext {
  return { ...context, ...context.rehearsal };
}

const OID = 'SELECT oid::int8 AS oid FROM pg_database WHERE datname = $1';

async function create(context: CloneContext, assessment: Possible, scope: Scope): Promise<Clone> {
  const { target, control, run } = context;
  const name = ownedName(target.database.name, 'rehearsal', run);
  const properties = await readProperties(control, target.database.oid);
  let mark: Mark | undefined;
  const started = performance.now();
  const made = await scope.own(
    `clone ${name}`,
    () => createFromTemplate(context, assessment, name),
    async () => {
      if (!mark?.kept) await dropClone(context, name, mark);
    },
  );
  const [row] = await control.query<{ oid: string }>(OID, [name]);
  if (!row)
    throw new SafemigrateError('CLONE', `The clone ${name} was dropped by somebody as soon as it was made.`);
  const oid = Number(row.oid);
  const born = markOf(context, name, oid);
  mark = born;
  await control.query(marking(name, born));
  const remark = async (more: Pick<Mark, 'kept' | 'databases'>) => {
    const next: Mark = { ...(mark ?? born), ...more };
    await control.query(marking(name, next));
    mark = next;
  };
  const notCarried = await carryProperties(control, name, properties);
  return {
    method: 'template',
    strategy: made.strategy,
    isolation: 'same-cluster',
    reason: made.notice ? `${assessment.reason}; ${made.notice}` : assessment.reason,
    database: name,
    oid,
    connect: { ...target.settings, database: name },
    sharesRoles: !context.rehearsal,
    server: {
      control,
      open: (purpose) => openMaintenanceSession(target, { run, audit: context.audit, purpose }),
    },
    marking: () => marking(name, mark ?? born),
    made: new MadeDatabases(run, control, (databases) => remark({ databases })),
    durationMs: performance.now() - started,
    stallMs: made.durationMs,
    notCarried,
    touched: context.rehearsal ? [] : touches(made),
    limits: context.rehearsal ? [ANOTHER_SERVER] : [],
    uniqueBytes: async () => ({
      unmeasured: 'the server does not tell how many blocks a database inside it shares with another',
    }),
    keep: () => remark({ kept: true }),
  };
}

/** What is cloned there was copied some time ago, by somebody else. */
const ANOTHER_SERVER: Limit = {
  path: 'clone',
  kind: 'estimate',
  reason:
    'the clone was made from a copy of the target on another server: its data, settings and hardware may differ',
};

/** The control connection may be what was lost, with the server: so over one of its own, with some patience. */
async function dropClone(context: CloneContext, name: string, mark: Mark | undefined): Promise<void> {
  const { target, run, audit } = context;
  const session = await openMaintenanceSessionPatiently(
    target,
    { run, purpose: 'cleanup', audit },
    RESTART_MS,
  );
  try {
    const enter = (database: string) =>
      openSession(target.settings, { database, run, purpose: 'cleanup', audit });
    const order = { run, ownRun: true, enter };
    // A COMMENT of the command's, hidden in a function, may stand in the place of the mark.
    if (mark) await markAgain(session, name, mark);
    for (const made of mark?.databases ?? [])
      await dropOwnedDatabase(session, { ...order, name: made, oid: undefined, role: 'made' });
    const oid = mark && 'oid' in mark.at ? mark.at.oid : undefined;
    await dropOwnedDatabase(session, { ...order, name, oid, role: 'clone' });
  } finally {
    await session.close();
  }
}

/** Only where name and OID are still those of the database that this run made. */
async function markAgain(session: Session, name: string, mark: Mark): Promise<void> {
  const [row] = await session.query<{ oid: string }>(OID, [name]);
  if ('oid' in mark.at && Number(row?.oid) === mark.at.oid) await session.query(marking(name, mark));
}

const RESTART_MS = 5_000;

async function describe(context: CloneContext, assessment: Possible): Promise<string[]> {
  const { target, run, control } = context;
  const name = ownedName(target.database.name, 'rehearsal', run);
  return [
    ...(await plannedStatements(context, name, assessment.strategy as Strategy)),
    // The OID of a database that does not exist yet is the one thing that cannot be told beforehand.
    marking(name, markOf(context, name, 0)),
    ...carryingStatements(name, await readProperties(control, target.database.oid)),
    droppingStatement(name),
  ];
}

function touches({ strategy, durationMs, ended }: Made): string[] {
  const how =
    strategy === 'wal_log' ? 'every page of it went through WAL' : 'with a checkpoint before and after';
  return [
    `CREATE DATABASE with TEMPLATE (${how}); new connections to the target waited for up to ${formatDuration(durationMs)}`,
    ...(ended > 0 ? [`${plural(ended, 'session')} on the target ended, as --disconnect allows`] : []),
  ];
}

function markOf({ run, target, lockDatabaseOid }: CloneContext, name: string, oid: number): Mark {
  const targetOid = target.database.oid;
  return {
    version: 1,
    run,
    role: 'clone',
    targetOid,
    state: 'ready',
    at: { database: name, oid },
    lockDatabaseOid,
  };
}

function marking(name: string, mark: Mark): string {
  return `COMMENT ON DATABASE ${identifier(name)} IS ${literal(formatMark(mark))}`;
}
