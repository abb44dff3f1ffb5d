import { SafemigrateError } from '../errors.ts';
import { openMaintenanceSessionPatiently } from '../ownership/control-session.ts';
import { dropOwnedDatabase } from '../ownership/drop.ts';
import { formatMark, type Mark, ownedName } from '../ownership/mark.ts';
import { openSession } from '../postgres/connection/connect.ts';
import type { Session } from '../postgres/connection/session.ts';
import { identifier, literal } from '../postgres/sql/quote.ts';
import type { Scope } from '../scope.ts';
import type { CloneContext, CloneServer } from './method.ts';

export type Making = CloneServer & Pick<CloneContext, 'run' | 'audit'>;

const OID = 'SELECT oid::int8 AS oid FROM pg_database WHERE datname = $1';
const RESTART_MS = 5_000;

export function cloneName({ target, run }: Pick<Making, 'target' | 'run'>): string {
  return ownedName(target.database.name, 'clone', run);
}

/**
 * Creates a database on a shared server, marked by the statement that creates it, and dropped however the run ends; then writes
 * its mark.
 * @param make creates the database with the name and limits by which ownership/owned.ts recognizes an unmarked one.
 * @param state of the mark that it gets right after that.
 * @returns with `marking()`, the statement that sets its current mark.
 */
export async function ownMarkedDatabase<T>(
  making: Making,
  state: 'creating' | 'ready',
  make: () => Promise<T>,
  scope: Scope,
) {
  const { control } = making;
  const name = cloneName(making);
  let mark: Mark | undefined;
  const made = await scope.own(`clone ${name}`, make, async () => {
    if (!mark?.kept) await dropClone(making, name, mark);
  });
  const [row] = await control.query<{ oid: string }>(OID, [name]);
  if (!row)
    throw new SafemigrateError('CLONE', `Somebody dropped the clone ${name} right after it was created.`);
  const oid = Number(row.oid);
  const born = markOf(making, name, oid, state);
  mark = born;
  await control.query(markingStatement(name, born));
  return {
    made,
    database: {
      name,
      oid,
      marking: () => markingStatement(name, mark ?? born),
      async updateMark(more: Partial<Pick<Mark, 'kept' | 'databases' | 'state'>>) {
        const next: Mark = { ...(mark ?? born), ...more };
        await control.query(markingStatement(name, next));
        mark = next;
      },
    },
  };
}

/** For plans: only the OID of a database that does not exist yet is not known. */
export function plannedMarking(making: Making, state: 'creating' | 'ready'): string {
  const name = cloneName(making);
  return markingStatement(name, markOf(making, name, 0, state));
}

/** Drops over a session of its own, and waits for the server if necessary: the control connection may be lost. */
async function dropClone(
  { target, run, audit }: Making,
  name: string,
  mark: Mark | undefined,
): Promise<void> {
  const session = await openMaintenanceSessionPatiently(
    target,
    { run, purpose: 'cleanup', audit },
    RESTART_MS,
  );
  try {
    const enter = (database: string) =>
      openSession(target.settings, { database, run, purpose: 'cleanup', audit });
    const order = { run, ownRun: true, enter };
    // The command may have replaced the mark by a COMMENT of its own, sent from a function.
    if (mark) await markAgain(session, name, mark);
    for (const made of mark?.databases ?? [])
      await dropOwnedDatabase(session, { ...order, name: made, oid: undefined, role: 'made' });
    const oid = mark?.at.oid;
    await dropOwnedDatabase(session, { ...order, name, oid, role: 'clone' });
  } finally {
    await session.close();
  }
}

/** Marks again only if name and OID are still those of the database that this run created. */
async function markAgain(session: Session, name: string, mark: Mark): Promise<void> {
  const [row] = await session.query<{ oid: string }>(OID, [name]);
  if (Number(row?.oid) === mark.at.oid) await session.query(markingStatement(name, mark));
}

function markOf(
  { run, target, lockDatabaseOid }: Making,
  name: string,
  oid: number,
  state: Mark['state'],
): Mark {
  const targetOid = target.database.oid;
  return { version: 1, run, role: 'clone', targetOid, state, at: { database: name, oid }, lockDatabaseOid };
}

function markingStatement(name: string, mark: Mark): string {
  return `COMMENT ON DATABASE ${identifier(name)} IS ${literal(formatMark(mark))}`;
}
