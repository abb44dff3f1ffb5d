import { formatDuration, plural } from '../format.ts';
import type { Caveat } from '../model/report.ts';
import { openMaintenanceSession } from '../ownership/control-session.ts';
import { droppingStatement } from '../ownership/drop.ts';
import { MadeDatabases } from '../ownership/made-databases.ts';
import type { Scope } from '../scope.ts';
import { cloneName, ownMarkedDatabase, plannedMarking } from './marked-database.ts';
import type { Clone, CloneContext, CloneMethod, Impossible, Possible } from './method.ts';
import { refuseOnSharedServer } from './obstacle.ts';
import { carryingStatements, carryProperties, readProperties } from './properties.ts';
import type { TemplateStrategy } from './template/assess-template.ts';
import { assessTemplate } from './template/assess-template.ts';
import { createFromTemplate, type Made, plannedStatements } from './template/create.ts';

/** Clones by CREATE DATABASE … TEMPLATE, on the target's server, or from a copy of the target on another server. */
export const template: CloneMethod = {
  id: 'template',
  assess: async (context) =>
    noCopy(context) ?? refuseInside(context) ?? (await assessTemplate(onGround(context))),
  create: (context, assessment, scope) => create(onGround(context), assessment, scope),
  describe: (context, assessment) => describe(onGround(context), assessment),
};

/** The database that --clone-to names is an existing copy of the target, which is cloned. */
function onGround(context: CloneContext): CloneContext {
  return { ...context, ...context.rehearsal };
}

function refuseInside(context: CloneContext): Impossible | undefined {
  return context.rehearsal ? undefined : refuseOnSharedServer(context, "inside the target's server");
}

/** Databases that each server has: naming one selects the server, not a copy. */
const NO_COPIES = ['postgres', 'defaultdb', 'template1'];

function noCopy({ rehearsal, target }: CloneContext): Impossible | undefined {
  const { name } = rehearsal?.target.database ?? {};
  if (name === undefined || name === target.database.name || !NO_COPIES.includes(name)) return undefined;
  return {
    possible: false,
    reason: `--clone-to names the database ${name}, which is no copy of ${target.database.name}`,
    enable: 'name a copy of the target there, if there is one',
  };
}

async function create(context: CloneContext, assessment: Possible, scope: Scope): Promise<Clone> {
  const { target, control, run } = context;
  const properties = await readProperties(control, target.database.oid);
  const started = performance.now();
  const make = () => createFromTemplate(context, assessment, cloneName(context));
  const { made, database } = await ownMarkedDatabase(context, 'ready', make, scope);
  const { name, oid, marking, updateMark } = database;
  const notCarried = await carryProperties(control, name, properties);
  return {
    method: 'template',
    strategy: made.strategy,
    isolation: 'same-cluster',
    containment: assessment.containment,
    reason: made.notice ? `${assessment.reason}; ${made.notice}` : assessment.reason,
    database: name,
    oid,
    connect: { ...target.settings, database: name },
    sharesRoles: !context.rehearsal,
    server: {
      control,
      open: (purpose) => openMaintenanceSession(target, { run, audit: context.audit, purpose }),
    },
    marking,
    made: new MadeDatabases(run, control, (databases) => updateMark({ databases })),
    durationMs: performance.now() - started,
    stallMs: made.durationMs,
    notCarried,
    touched: context.rehearsal ? [] : touches(made),
    caveats: context.rehearsal ? [ANOTHER_SERVER] : [],
    uniqueBytes: async () => ({
      unmeasured: 'the server does not report how many blocks a database shares with another one',
    }),
    keep: () => updateMark({ kept: true }),
  };
}

/** The copy on the other server may be old. */
const ANOTHER_SERVER: Caveat = {
  path: 'clone',
  kind: 'estimate',
  reason:
    'the clone was made from a copy of the target on another server: its data, settings and hardware may differ',
};

async function describe(context: CloneContext, assessment: Possible): Promise<string[]> {
  const { target, control } = context;
  const name = cloneName(context);
  return [
    ...(await plannedStatements(context, name, assessment.strategy as TemplateStrategy)),
    plannedMarking(context, 'ready'),
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
