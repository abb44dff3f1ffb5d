import { createHash } from 'node:crypto';
import type { StatementSection } from '../report/model.ts';
import { shapeOf } from '../wire/shape.ts';

/** What a rehearsal has shown of the command's statements, for telling whether the target is sent the same. */
export interface Rehearsed {
  /** In the order in which they began. */
  readonly statements: readonly RehearsedStatement[];
  /** Hashes of the shapes of everything but DML: what is not among them was not rehearsed. */
  readonly ddl: ReadonlySet<string>;
  /** Hashes of the shapes of DML, which may come in any number and order. */
  readonly dml: ReadonlySet<string>;
}

export interface RehearsedStatement {
  readonly index: number;
  readonly sql: string;
  /** Hash of its shape. */
  readonly shape: string;
  readonly durationMs: number;
}

type Seen = Pick<StatementSection, 'index' | 'sql' | 'tag' | 'durationMs'>;

/** INSERT, UPDATE, DELETE, MERGE, SELECT, COPY, by their tags, and by their first word where they failed. */
const DML = /^(?:INSERT|UPDATE|DELETE|MERGE|SELECT|COPY|WITH|VALUES|TABLE|FETCH)\b/i;

export function rehearsedOf(statements: readonly Seen[]): Rehearsed {
  const all = statements.map(({ index, sql, durationMs }) => ({
    index,
    sql,
    durationMs,
    shape: shapeHash(sql),
  }));
  const isDml = statements.map(({ tag, sql }) => DML.test(tag ?? sql.trimStart()));
  const shapes = (wanted: boolean) =>
    new Set(all.filter((_, at) => isDml[at] === wanted).map(({ shape }) => shape));
  return { statements: all, ddl: shapes(false), dml: shapes(true) };
}

/** Of a statement without its literals, comments and spacing; names of tables, columns and files of data are not literals. */
export function shapeHash(sql: string): string {
  return createHash('sha256').update(shapeOf(sql)).digest('base64url').slice(0, 22);
}

/** Of all that was sent, in its order: repetitions of one shape in a row count once, since batches differ. */
export function streamHash({ statements }: Rehearsed): string {
  const shapes = statements.map(({ shape }) => shape).filter((shape, at, all) => shape !== all[at - 1]);
  return createHash('sha256').update(shapes.join('\n')).digest('hex');
}
