import type { Session } from '../../postgres/connection/session.ts';
import type { CloneContext } from '../method.ts';
import type { TemplateStrategy } from './estimate-template.ts';

const WAL_WRITTEN = `SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), $1)::float8 AS bytes`;
const WAL_POSITION = 'SELECT pg_current_wal_insert_lsn()::text AS position';

/** Until the statement ends the new database is not in the catalog, but superusers can see its folder. */
const FOLDERS = `SELECT name::int8 AS oid FROM pg_ls_dir('base') AS name WHERE name ~ '^[0-9]+$'`;
const FOLDER_SIZE = `
SELECT coalesce(sum((pg_stat_file('base/' || $1 || '/' || name, true)).size), 0)::float8 AS bytes
  FROM pg_ls_dir('base/' || $1, true, false) AS name`;

/** Returns a function that reads the progress of CREATE DATABASE once and emits it. */
export async function reportProgress(
  context: CloneContext,
  session: Session,
  strategy: TemplateStrategy,
): Promise<() => Promise<void>> {
  const of = context.target.database.sizeBytes;
  const emit = (bytes: number) =>
    context.emit({ type: 'progress', phase: 'clone', done: Math.min(bytes, of), of, unit: 'bytes' });
  if (strategy === 'wal_log') {
    const [start] = await session.query<{ position: string }>(WAL_POSITION);
    return async () => {
      const [row] = await session.query<{ bytes: number }>(WAL_WRITTEN, [start?.position]);
      emit(row?.bytes ?? 0);
    };
  }
  if (strategy !== 'copy' || !context.target.role.superuser) return async () => {};
  const known = new Set((await session.query<{ oid: string }>(FOLDERS)).map(({ oid }) => oid));
  let folder: string | undefined;
  return async () => {
    folder ??= (await session.query<{ oid: string }>(FOLDERS)).find(({ oid }) => !known.has(oid))?.oid;
    if (folder === undefined) return;
    const [row] = await session.query<{ bytes: number }>(FOLDER_SIZE, [folder]);
    emit(row?.bytes ?? 0);
  };
}
