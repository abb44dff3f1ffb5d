import type { StatementSection } from '../../model/report.ts';
import type { HazardContext } from '../hazard-context.ts';
import type { Finding, HazardRecord } from '../hazard-definition.ts';

/** Writes of the server's own tables. */
export const CATALOGUE_WRITES: readonly HazardRecord[] = [
  {
    code: 'CATALOGUE_WRITTEN',
    title: 'a system catalogue is written by hand',
    condition:
      'An INSERT, UPDATE, DELETE or MERGE changes rows of a system catalogue (pg_class, pg_index, pg_attribute, pg_constraint, pg_enum, pg_proc and the like), or the text of a DO block has one. Comments, statistics, large objects and pg_database are left out.',
    effect:
      'The server believes the catalogue and checks nothing: an index marked valid lacks rows, a constraint marked valid is violated, rows keep an enum value that was deleted. Other sessions may use the old definition until they reconnect.',
    safer:
      'Use the DDL statement: ALTER TABLE … VALIDATE CONSTRAINT, REINDEX CONCURRENTLY, ALTER TYPE … RENAME VALUE, a new column of the other type.',
    find: (context) =>
      context.facts.statements.flatMap((statement) => {
        const catalogue = writtenIn(context, statement);
        return catalogue === undefined ? [] : [found(statement, catalogue)];
      }),
  },
];

const WRITING = ['insert', 'update', 'delete', 'merge'] as const;
/** Catalogues with the definitions of objects. */
const CATALOGUES =
  /^pg_(?:aggregate|am|amop|amproc|attrdef|attribute|auth_members|authid|cast|class|collation|constraint|conversion|db_role_setting|default_acl|depend|enum|event_trigger|extension|foreign_\w+|index|inherits|init_privs|language|namespace|opclass|operator|opfamily|partitioned_table|policy|proc|publication\w*|range|rewrite|sequence|shdepend|statistic_ext|subscription\w*|trigger|ts_\w+|type|user_mapping)$/;

const COMMENTS = /--[^\n]*|\/\*.*?\*\//gs;
const IN_BLOCK =
  /\b(?:update|insert\s+into|delete\s+from|merge\s+into)\s+(?:only\s+)?(?:pg_catalog\s*\.\s*)?(pg_\w+)/gi;

/** The first catalogue that a statement writes. */
function writtenIn(context: HazardContext, statement: StatementSection): string | undefined {
  const { error, rows, tag, sql } = statement;
  if (error !== null || rows === 0) return undefined;
  if (tag === 'DO')
    return [...sql.replace(COMMENTS, ' ').matchAll(IN_BLOCK)]
      .map(([, name = '']) => name.toLowerCase())
      .find((name) => CATALOGUES.test(name));
  return WRITING.flatMap((does) => context.actionsIn(statement, does))
    .map(({ action }) => action.table)
    .find(({ schema, name }) => (schema ?? 'pg_catalog') === 'pg_catalog' && CATALOGUES.test(name))?.name;
}

function found({ index, tag, rows }: StatementSection, catalogue: string): Finding {
  return {
    statement: index,
    relation: null,
    severity: 'warning',
    message: `writes the system catalogue ${catalogue}: the server believes it and checks nothing`,
    evidence: rows === null ? `the text of the ${tag} block` : `${tag} of pg_catalog.${catalogue}`,
    advice: 'Use the DDL statement for the change, which checks it and tells other sessions.',
  };
}
