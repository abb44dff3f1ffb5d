import { displayName } from '../postgres/sql/quote.ts';

/** The dump that the jobs rehearse on. */
export const DUMP_FILE = 'test/dump.sql';

/**
 * The commands that dump a schema, and the rows that a migration tool continues from. One command cannot do both: only pg_dump 17
 * and newer choose tables for rows alone. `--inserts`: rows for COPY could be restored by psql only, which few machines of CI have.
 * @param tables patterns of pg_dump; none: the schema alone. @param url a word for sh.
 */
export function dumpCommands(tables: readonly string[], url: string): string[] {
  const chosen = tables.map((table) => `--table='${table}'`).join(' ');
  return [
    `pg_dump --schema-only ${url} > ${DUMP_FILE}`,
    ...(tables.length === 0 ? [] : [`pg_dump --data-only --inserts ${chosen} ${url} >> ${DUMP_FILE}`]),
  ];
}

/** A pattern for the tables of this name in all schemas. */
export function inAnySchema(table: string): string {
  return `*.${displayName(table)}`;
}
