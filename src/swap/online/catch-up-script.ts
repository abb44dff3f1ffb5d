import { readScripts, type Script } from '../../clone/after-clone.ts';
import { messageOf, SafemigrateError, sqlstateOf } from '../../errors.ts';
import { formatDuration } from '../../format.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { isDml } from '../../postgres/sql/classify-statement.ts';
import { parseText } from '../../postgres/sql/parse.ts';
import { identifier } from '../../postgres/sql/quote.ts';
import { swapFailure } from '../swap-section.ts';
import type { OnlinePlan, OnlineTable } from './online-plan.ts';

/**
 * Reads the user's SQL that fills the new columns and tables of the clone again, once that has caught up.
 * @throws SafemigrateError `CONFIGURATION` if it cannot be read, or does more than to write rows: its last run is in the transaction of the cut-over.
 */
export async function readCatchUpScript(text: string | null, folder: string): Promise<Script | null> {
  if (text === null) return null;
  const [script] = readScripts([text], folder, '--catch-up');
  const statements = await parseText(Buffer.from(script?.sql ?? ''));
  if (script && statements?.every(({ node }) => isDml(node))) return script;
  throw new SafemigrateError(
    'CONFIGURATION',
    statements
      ? '--catch-up: it may only INSERT, UPDATE, DELETE and MERGE.'
      : '--catch-up: it cannot be parsed as SQL.',
    { hint: 'It runs several times, the last time in the transaction of the cut-over. Nothing was touched.' },
  );
}

const GUARD = 'safemigrate_catch_up';
const REFUSE = `
CREATE FUNCTION ${GUARD}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
  RAISE EXCEPTION 'it changes what the target has in %.%, and may only fill new columns and tables', TG_TABLE_SCHEMA, TG_TABLE_NAME;
END$$`;

/**
 * Returns the SQL of triggers that keep the user's SQL from changing what the target has. The comparison comes before the last runs,
 * and would miss it. They do not fire for replicated rows.
 */
export function guardOf(tables: readonly OnlineTable[]): Pick<OnlinePlan, 'before' | 'after'> {
  const call = `EXECUTE FUNCTION ${GUARD}.refuse()`;
  const triggers = tables.flatMap(({ inTarget, columns }) => {
    // Images are compared, as not all types have an equality.
    const image = (row: string) =>
      `ROW(${columns.map((column) => `${row}.${identifier(column.inTarget)}`).join(', ')})::record`;
    return [
      `CREATE TRIGGER ${GUARD}_update AFTER UPDATE ON ${inTarget} FOR EACH ROW
 WHEN (${image('OLD')} OPERATOR(pg_catalog.*<>) ${image('NEW')}) ${call}`,
      `CREATE TRIGGER ${GUARD}_rows AFTER INSERT OR DELETE ON ${inTarget} FOR EACH ROW ${call}`,
      `CREATE TRIGGER ${GUARD}_truncate BEFORE TRUNCATE ON ${inTarget} ${call}`,
    ];
  });
  return { before: [`CREATE SCHEMA ${GUARD}`, REFUSE, ...triggers], after: [`DROP SCHEMA ${GUARD} CASCADE`] };
}

/** Runs it in the transaction of the session, with the search_path that the user's own sessions have. */
export async function runInTransaction(session: Session, { sql }: Script): Promise<void> {
  const [row] = await session.query<{ path: string }>("SELECT current_setting('search_path') AS path");
  await session.query('SET LOCAL search_path TO DEFAULT');
  await session.queryAll([sql]);
  await session.query("SELECT set_config('search_path', $1, true)", [row?.path]);
}

/**
 * Runs it on the clone of the rehearsal, as it will run on one that follows, and takes it back.
 * @returns why it fails; null if it does not.
 */
export async function tryScript(
  session: Session,
  { before }: Pick<OnlinePlan, 'before'>,
  script: Script,
): Promise<string | null> {
  await session.query('BEGIN');
  try {
    for (const statement of before) await session.query(statement);
    await runInTransaction(session, script);
    return null;
  } catch (error) {
    if (sqlstateOf(error) === undefined) throw error;
    return failureOf(error);
  } finally {
    await session.query('ROLLBACK').catch(() => {});
  }
}

const DEADLOCK = '40P01';
const MOST_RUNS = 5;
/** Share of the time for which the target may be closed. */
const SHORT = 0.5;

/**
 * Runs it while the clone follows, until it is so short that the target can be closed for it: the first run has the rows of the whole
 * catch-up. The worker changes the same rows, so that one of both may have to begin again.
 * @throws SafemigrateError `REFUSED` if it fails, or stays too long.
 */
export async function runUntilShort(
  session: Session,
  script: Script | null,
  maxCutOverMs: number,
): Promise<void> {
  if (script === null) return;
  const maxMs = maxCutOverMs * SHORT;
  let [formerMs, tookMs] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  for (let run = 0; run < MOST_RUNS && tookMs > maxMs; run++) {
    formerMs = tookMs;
    const startedAt = performance.now();
    try {
      await session.query('BEGIN');
      await runInTransaction(session, script);
      await session.query('COMMIT');
      tookMs = performance.now() - startedAt;
    } catch (error) {
      await session.query('ROLLBACK').catch(() => {});
      if (sqlstateOf(error) === undefined) throw error;
      if (sqlstateOf(error) !== DEADLOCK || run === MOST_RUNS - 1) throw swapFailure(failureOf(error));
    }
    // Hours of runs that do not get shorter would lead nowhere.
    if (tookMs > Math.max(maxMs, formerMs * SHORT)) break;
  }
  if (tookMs <= maxMs) return;
  throw swapFailure(
    `--catch-up takes ${formatDuration(tookMs)} each time, and the target would be closed for it: write it so that an index finds its rows, or raise --limit cut-over`,
  );
}

function failureOf(error: unknown): string {
  return `--catch-up fails on the clone: ${messageOf(error)} (SQLSTATE ${sqlstateOf(error)})`;
}
