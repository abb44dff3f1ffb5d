import type { Scope } from '../scope.ts';
import { identifier, literal } from '../sql.ts';
import { openMaintenanceSession } from '../upkeep/claim.ts';
import { dropOwnedDatabase, droppingStatements } from '../upkeep/drop.ts';
import { formatMark, type Mark, ownedName } from '../upkeep/mark.ts';
import type { Clone, CloneContext, CloneMethod, Possible } from './method.ts';
import { carryingStatements, carryProperties, readProperties } from './properties.ts';
import { assessTemplate } from './template/assess.ts';
import { createFromTemplate, creatingStatements } from './template/create.ts';
import type { Strategy } from './template/estimate.ts';

/** CREATE DATABASE … TEMPLATE inside the target's own server. */
export const template: CloneMethod = { id: 'template', assess: assessTemplate, create, describe };

const OID = 'SELECT oid::int8 AS oid FROM pg_database WHERE datname = $1';

async function create(context: CloneContext, assessment: Possible, scope: Scope): Promise<Clone> {
  const { target, control, run } = context;
  const name = ownedName(target.database.name, 'rehearsal', run);
  const properties = await readProperties(control, target.database.oid);
  let oid: number | undefined;
  let kept = false;
  const started = performance.now();
  const made = await scope.own(
    `clone ${name}`,
    () => createFromTemplate(context, assessment, name),
    async () => {
      if (!kept) await dropClone(context, name, oid);
    },
  );
  const [row] = await control.query<{ oid: string }>(OID, [name]);
  oid = Number(row?.oid);
  const mark = markOf(context, name, oid);
  await control.query(marking(name, mark));
  const notCarried = await carryProperties(control, name, properties);
  return {
    method: 'template',
    strategy: made.strategy,
    isolation: 'same-cluster',
    reason: made.notice ? `${assessment.reason}; ${made.notice}` : assessment.reason,
    database: name,
    connect: { ...target.settings, database: name },
    mark,
    durationMs: performance.now() - started,
    stallMs: made.durationMs,
    notCarried,
    keep: async () => {
      await control.query(marking(name, { ...mark, kept: true }));
      kept = true;
    },
  };
}

/** The control connection may be what was lost: so over one of its own. */
async function dropClone(context: CloneContext, name: string, oid: number | undefined): Promise<void> {
  const { target, run, audit } = context;
  const session = await openMaintenanceSession(target, { run, purpose: 'cleanup', audit });
  try {
    await dropOwnedDatabase(session, { name, run, oid, role: 'clone', ownRun: true });
  } finally {
    await session.close();
  }
}

async function describe(context: CloneContext, assessment: Possible): Promise<string[]> {
  const { target, run, control } = context;
  const name = ownedName(target.database.name, 'rehearsal', run);
  return [
    ...creatingStatements(context, name, assessment.strategy as Strategy),
    // The OID of a database that does not exist yet is the one thing that cannot be told beforehand.
    marking(name, markOf(context, name, 0)),
    ...carryingStatements(name, await readProperties(control, target.database.oid)),
    ...droppingStatements(name),
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
