import { ownershipStatements } from '../database/privileges.ts';
import type { Target } from '../database/target.ts';
import { formatDuration, plural } from '../format.ts';
import type { Report } from '../model/report.ts';
import { WAY_BACKS } from '../ownership/owned-replication.ts';
import type { Session } from '../postgres/connection/session.ts';
import { identifier, literal } from '../postgres/sql/quote.ts';
import { type TargetState, targetChangesBetween } from '../proof/target-state.ts';
import type { RehearsalContext } from '../rehearsal/prepare.ts';
import type { SwapPlan } from './swap-plan.ts';

/**
 * Says why not to swap after a rehearsal: it did not pass, it took longer than the target may be closed, or the user did not
 * confirm. The user is asked last, and the target is checked after that, since it may change while a person thinks.
 */
export async function objectionToSwap(
  report: Report,
  { confirm, window: { maxClosedMs } }: Pick<SwapPlan, 'confirm' | 'window'>,
): Promise<string | undefined> {
  if (!report.verdict.pass) return 'the rehearsal did not pass';
  const expectedMs = report.clone.durationMs + report.command.durationMs;
  if (expectedMs > maxClosedMs)
    return `the target would be closed for about ${formatDuration(expectedMs)}, as estimated from the rehearsal, which is more than --limit closed allows`;
  return (await confirm(report, expectedMs)) ? undefined : 'it was not confirmed';
}

/** Lists everything that prevents the swap of a prepared run, before the target is closed. */
export async function swapObjections(
  { context, stateBefore }: RehearsalContext,
  rehearsed: TargetState,
  plan: Pick<SwapPlan, 'allowStandbys'>,
): Promise<string[]> {
  const obstacles = await obstacleReasons(context.control, context.target, plan);
  const changed = targetChangesBetween(rehearsed, stateBefore);
  return [
    ...obstacles,
    ...changed.map((what) => `the target changed since it was rehearsed on: ${what}; run it again`),
  ];
}

/** Describes the obstacles, each with what would help. */
export async function obstacleReasons(
  session: Session,
  target: Pick<Target, 'database' | 'role'>,
  { allowStandbys }: Pick<SwapPlan, 'allowStandbys'>,
  returns = false,
): Promise<string[]> {
  const obstacles = await swapObstacles(session, target, allowStandbys, returns);
  return obstacles.map(({ reason, wayOut }) => `${reason}: ${wayOut}`);
}

type Counted =
  | 'prepared'
  | 'slots'
  | 'returning'
  | 'subscriptions'
  | 'standbys'
  | 'superusers'
  | 'unterminable';

/**
 * One query, so that all conditions hold at the same moment. A walsender with a database serves logical replication. Most
 * roles cannot see the state of the other walsenders: each of them then counts as a standby's.
 */
const CONDITIONS = `
SELECT (SELECT count(*) FROM pg_prepared_xacts WHERE database = $2) AS prepared,
       (SELECT count(*) FROM pg_replication_slots WHERE database = $2 AND slot_name !~ $3) AS slots,
       (SELECT count(*) FROM pg_replication_slots WHERE database = $2 AND slot_name ~ $3) AS returning,
       (SELECT count(*) FROM pg_subscription WHERE subdbid = $1::oid) AS subscriptions,
       (SELECT count(*) FROM pg_stat_replication r JOIN pg_stat_activity a ON a.pid = r.pid
         WHERE a.datid IS NULL AND coalesce(r.state, 'streaming') IN ('streaming', 'catchup')) AS standbys,
       (SELECT count(*) FROM pg_stat_activity a JOIN pg_roles r ON r.oid = a.usesysid
         WHERE a.datid = $1::oid AND r.rolsuper AND NOT me.rolsuper) AS superusers,
       (SELECT count(*) FROM pg_stat_activity a JOIN pg_roles r ON r.oid = a.usesysid
         WHERE a.datid = $1::oid AND NOT me.rolsuper AND NOT r.rolsuper
           AND NOT pg_has_role(r.oid, 'USAGE') AND NOT pg_has_role('pg_signal_backend', 'USAGE')) AS unterminable,
       me.rolsuper OR (me.rolcreatedb AND pg_has_role(d.datdba, 'USAGE')) AS may_clone
  FROM pg_roles me, pg_database d
 WHERE me.rolname = current_user AND d.oid = $1::oid`;

/** Databases that tools and people expect to exist. */
const MAINTENANCE = new Set(['postgres', 'template0', 'template1']);

/**
 * Finds everything about the server and the role that prevents a swap, each with what would help. Changes nothing.
 * @param session in another database of the target's server.
 * @param returns the original that follows it comes back.
 */
export async function swapObstacles(
  session: Session,
  { database, role }: Pick<Target, 'database' | 'role'>,
  allowStandbys: boolean,
  returns = false,
) {
  const [row] = await session.query<Record<Counted, string> & { may_clone: boolean }>(CONDITIONS, [
    database.oid,
    database.name,
    WAY_BACKS,
  ]);
  if (!row) throw new Error(`no database with OID ${database.oid}`);
  const found: { reason: string; wayOut: string }[] = [];
  const addIf = (holds: boolean, reason: string, wayOut: string) => {
    if (holds) found.push({ reason, wayOut });
  };
  addIf(
    MAINTENANCE.has(database.name) || database.isTemplate || session.database === database.name,
    `${database.name} is a template or a maintenance database`,
    'others rely on its name; keep the data in a database of its own',
  );
  addIf(
    !row.may_clone,
    `the role ${role.name} may not clone and rename ${database.name}`,
    [
      ...(role.createdb ? [] : [`ALTER ROLE ${identifier(role.name)} CREATEDB;`]),
      ...(database.owned ? [] : [ownershipStatements({ role, database }).grant]),
    ].join(' '),
  );
  addIf(
    Number(row.prepared) > 0,
    plural(Number(row.prepared), 'prepared transaction'),
    `in ${database.name}: COMMIT PREPARED or ROLLBACK PREPARED each; SELECT gid, prepared, owner FROM pg_prepared_xacts`,
  );
  addIf(
    Number(row.slots) > 0,
    `${plural(Number(row.slots), 'logical replication slot')} on it, which would stay with the original`,
    'drop them and re-create them after the swap, or apply the migration in place (safemigrate apply)',
  );
  addIf(
    Number(row.returning) > 0 && !returns,
    'the original of an earlier swap follows it (--way-back)',
    'end that with `safemigrate clean --originals --older-than 0s`, which drops that original, or roll back',
  );
  addIf(
    Number(row.subscriptions) > 0,
    `${plural(Number(row.subscriptions), 'subscription')} in it, which would stay with the original`,
    'apply the migration in place (safemigrate apply), or drop the subscriptions first',
  );
  addIf(
    Number(row.standbys) > 0 && !allowStandbys,
    `${plural(Number(row.standbys), 'standby', 'standbys')} of the server: sessions there would stay with the original and read old data without an error`,
    '--permit standbys once they have no readers, or are restarted after the swap',
  );
  addIf(
    Number(row.superusers) > 0,
    `${plural(Number(row.superusers), 'session')} of superusers on it, which this role may not terminate`,
    `close them, or run as a superuser: SELECT pid, usename, application_name FROM pg_stat_activity WHERE datname = ${literal(database.name)}`,
  );
  addIf(
    Number(row.unterminable) > 0,
    `${plural(Number(row.unterminable), 'session')} of other roles on it, which this role may not terminate`,
    `GRANT pg_signal_backend TO ${identifier(role.name)};`,
  );
  return found;
}
