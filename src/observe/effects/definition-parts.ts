import { FIRST_USER_OID } from '../../postgres/catalogue/user-objects.ts';

/**
 * Subjects of the parts of the query for definitions, each as a query for any object of that kind. The parts join its catalogue: in a
 * database without such objects they have no rows, and are not sent. The server spends most of its time on planning them.
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

/** Parts of a query of kind, schema, relation, name and text, by their subject; one text may have several, with UNION ALL. */
export type DefinitionParts = Readonly<Partial<Record<Subject | 'always', string>>>;

/** Reads one row, which says for each subject if the database has such an object. */
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
