import { isBookkeeping } from '../../model/migration-tables.ts';
import type { Name } from '../../model/statement-actions.ts';
import { READER_MARK } from '../../postgres/connection/reader-mark.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { parseText } from '../../postgres/sql/parse.ts';
import { displayName } from '../../postgres/sql/quote.ts';
import { calledFunctions, nameOf, nameOfParts, nodesWithin } from '../../postgres/sql/tree.ts';

/** Names of PostgreSQL's own objects that a statement may use without their schema. */
interface SystemNames {
  readonly relations: ReadonlySet<string>;
  readonly functions: ReadonlySet<string>;
  readonly types: ReadonlySet<string>;
}

const SYSTEM_NAMES = `
select
  array(select c.relname::text from pg_catalog.pg_class c
    where c.relkind in ('r', 'v') and c.relnamespace = 'pg_catalog'::pg_catalog.regnamespace) as relations,
  array(select distinct p.proname::text from pg_catalog.pg_proc p
    where p.pronamespace = 'pg_catalog'::pg_catalog.regnamespace) as functions,
  array(select t.typname::text from pg_catalog.pg_type t
    where t.typnamespace = 'pg_catalog'::pg_catalog.regnamespace) as types`;

/**
 * Statements that earlier versions of safemigrate sent to read rows of the target, as pg_stat_statements writes them: counts of columns,
 * digests of rows, and rows by their keys and hashes.
 */
const EARLIER_FORMS: readonly RegExp[] = [
  /^SELECT (?:count\(\*\)::float8 AS rows, )?ARRAY\[count\(/,
  /^SELECT count\(\*\) \|\| \$\d+ \|\| coalesce\(sum\(hashtextextended\(concat_ws\(/,
  /^SELECT ARRAY\[.*\]::text\[\] AS key, ARRAY\[/s,
  /^select \$\d+::int8 as oid, pg_catalog\.count\(\*\) as n from only /,
];

/** Tells whether safemigrate sent a statement of pg_stat_statements. */
export function isOurs(sql: string): boolean {
  return sql.includes(READER_MARK) || EARLIER_FORMS.some((form) => form.test(sql));
}

/** Tells which statements of pg_stat_statements the application may have sent. */
export class ApplicationTexts {
  readonly #names: SystemNames;

  private constructor(names: SystemNames) {
    this.#names = names;
  }

  static async read(session: Session): Promise<ApplicationTexts> {
    const [row] = await session.query<{ relations: string[]; functions: string[]; types: string[] }>(
      SYSTEM_NAMES,
    );
    return new ApplicationTexts({
      relations: new Set(row?.relations),
      functions: new Set(row?.functions),
      types: new Set(row?.types),
    });
  }

  /**
   * False for statements of tools that read the catalogs, and of migration tools that read their own table: they use nothing that the user
   * made. A text that cannot be parsed counts as the application's.
   */
  async has(sql: string): Promise<boolean> {
    const statements = await parseText(Buffer.from(sql));
    return statements === null || statements.some(({ node }) => this.#usesOwnObjects(node));
  }

  #usesOwnObjects(node: unknown): boolean {
    const local = new Set(nodesWithin(node, 'CommonTableExpr').map(({ ctename }) => ctename));
    const relations = nodesWithin(node, 'RangeVar')
      .map(nameOf)
      .concat(targetsOf(node))
      .filter(({ schema, name }) => schema !== null || !local.has(name));
    const types = nodesWithin(node, 'TypeName').map(({ names }) => nameOfParts(names));
    return (
      relations.some(
        (name) => isUsers(name, this.#names.relations) && !isBookkeeping(displayName(name.name)),
      ) ||
      calledFunctions(node).some((name) => isUsers(name, this.#names.functions)) ||
      types.some((name) => isUsers(name, this.#names.types))
    );
  }
}

/** The tables that INSERT, UPDATE and DELETE write, which the parser has as fields of a fixed type. */
function targetsOf(node: unknown): Name[] {
  return (['InsertStmt', 'UpdateStmt', 'DeleteStmt', 'MergeStmt'] as const).flatMap((kind) =>
    nodesWithin(node, kind).map(({ relation }) => nameOf(relation)),
  );
}

/** The extension may be in any schema. */
const STATISTICS = /^pg_stat_statements/;

function isUsers({ schema, name }: Name, system: ReadonlySet<string>): boolean {
  if (name === '' || STATISTICS.test(name)) return false;
  if (schema === 'pg_catalog' || schema === 'information_schema') return false;
  return schema !== null || !system.has(name);
}
