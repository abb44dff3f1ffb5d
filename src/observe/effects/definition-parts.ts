import { FIRST_USER_OID } from '../../postgres/catalogue/user-objects.ts';

/**
 * What the parts of the query for definitions are about, as a query for any of it. The parts join it: in a database without, they have no
 * rows, and are not sent. That halves the query, most of whose time goes to its planning.
 */
const SUBJECTS = {
  functions: `select from pg_catalog.pg_proc where oid >= ${FIRST_USER_OID}`,
  rules: `select from pg_catalog.pg_rewrite where oid >= ${FIRST_USER_OID}`,
  policies: 'select from pg_catalog.pg_policy',
  triggers: 'select from pg_catalog.pg_trigger',
  defaults: 'select from pg_catalog.pg_attrdef',
  publications: 'select from pg_catalog.pg_publication',
  statistics: 'select from pg_catalog.pg_statistic_ext',
  partitionedTables: 'select from pg_catalog.pg_partitioned_table',
  defaultPrivileges: 'select from pg_catalog.pg_default_acl',
} as const;

type Subject = keyof typeof SUBJECTS;

/** Parts of a query of kind, schema, relation, name and text, by what they are about; each may be several with UNION ALL. */
export type DefinitionParts = Readonly<Partial<Record<Subject | 'always', string>>>;

/** Reads what the database has, as one row. */
export const SUBJECTS_THERE = `select ${Object.entries(SUBJECTS)
  .map(([subject, any]) => `exists (${any}) as "${subject}"`)
  .join(', ')}`;

/** Writes the query with the parts that can have rows. @param there the row of SUBJECTS_THERE. */
export function definitionsQuery(
  lists: readonly DefinitionParts[],
  there: Readonly<Record<Subject, boolean>>,
): string {
  const subjects = (Object.keys(SUBJECTS) as Subject[]).filter((subject) => there[subject]);
  return lists
    .flatMap((parts) => (['always', ...subjects] as const).map((subject) => parts[subject]))
    .filter((sql) => sql !== undefined)
    .join('\nunion all\n');
}
