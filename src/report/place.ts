import type { Report } from '../model/report.ts';

/** The place of a statement in the working folder; lines count from 1, null: not known. */
export interface Place {
  readonly file: string;
  readonly line: number | null;
}

/** Finds the place of a statement by its index; undefined if it is not known. */
export function placeOf({ statements }: Pick<Report, 'statements'>, index: number | null): Place | undefined {
  const { file, line = null } = statements.find((each) => each.index === index) ?? {};
  return file === undefined ? undefined : { file, line };
}

/** A reference to a statement of the report: by its place if that is known, else by its number. */
export function statementAt(report: Pick<Report, 'statements'>, statement: number) {
  const place = placeOf(report, statement);
  return { statement, at: place && placeWords(place) };
}

/** `prisma/migrations/1_init/migration.sql:4` */
export function placeWords({ file, line }: Place): string {
  return line === null ? file : `${file}:${line}`;
}
