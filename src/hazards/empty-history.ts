import { listed } from '../format.ts';
import type { CatalogueFacts } from '../model/hazard-facts.ts';
import { isHistory, isToContinue } from '../model/migration-tables.ts';
import type { Report, StatementSection } from '../model/report.ts';
import { dumpCommands } from './dump-commands.ts';

/** Errors of a statement that creates an existing object: duplicate_table, _object, _column, _schema, _function. */
const ALREADY_THERE: ReadonlySet<string> = new Set(['42P07', '42710', '42701', '42P06', '42723']);

/**
 * Lists the tables without rows by which a migration tool began with its first migration in a database that has all of them, as after
 * `pg_dump --schema-only`; none if the command did not fail of that.
 */
export function emptyHistory(
  relations: CatalogueFacts['relations'],
  statements: readonly Pick<StatementSection, 'error'>[],
  { exitCode }: Pick<Report['command'], 'exitCode'>,
): string[] {
  if (exitCode === 0 || statements.length === 0) return [];
  const error = statements.findLast((each) => each.error !== null)?.error;
  if (error && !ALREADY_THERE.has(error.sqlstate)) return [];
  const tables = [...relations.keys()];
  const histories = tables.filter(isHistory);
  const isEmpty = (relation: string) => relations.get(relation)?.rows === 0;
  if (histories.length === 0 || !histories.every(isEmpty) || tables.every(isToContinue)) return [];
  return tables.filter((relation) => isToContinue(relation) && isEmpty(relation));
}

/** `public.django_migrations is empty in this dump, so that the tool began with its first migration`. */
export function emptyHistoryWords(
  tables: readonly string[],
  { origin }: Pick<Report['target'], 'origin'>,
): string {
  const histories = tables.filter(isHistory);
  const verb = histories.length === 1 ? 'is' : 'are';
  const place = origin === 'dump' ? 'this dump' : 'this database';
  return `${listed(histories)} ${verb} empty in ${place}, so that the tool began with its first migration`;
}

/** The commands that make the dump again with the rows of these tables, or that dump these for a database. */
export function historyCommands(
  tables: readonly string[],
  { origin }: Pick<Report['target'], 'origin'>,
): string[] {
  const commands = dumpCommands(tables, '"$DATABASE_URL"');
  return origin === 'dump' ? commands : commands.slice(1);
}
