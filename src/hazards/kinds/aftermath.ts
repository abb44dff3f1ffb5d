import { listed } from '../../format.ts';
import type { BrokenFunction, UnappliedFile } from '../../model/effect-facts.ts';
import type { StatementSection } from '../../model/report.ts';
import type { Name } from '../../model/statement-actions.ts';
import { bare, displayName, nameParts } from '../../postgres/sql/quote.ts';
import { isNamed } from '../explained-probes.ts';
import type { HazardContext } from '../hazard-context.ts';
import { type Finding, type HazardRecord, sqlAdvice } from '../hazard-definition.ts';
import { causeWords, onlyOf, statementsChanging } from '../probe-causes.ts';
import { statementOfFunction } from './changed-functions.ts';
import { madeAgainWithoutGrants, newWithoutGrants, sequencesWithoutGrants } from './not-granted.ts';

const GRANT_AT_ONCE = 'GRANT in the same migration';

/** Effects that the catalogues of the clone show after the command: the changes succeeded, and others suffer from them. */
export const AFTERMATH: readonly HazardRecord[] = [
  {
    code: 'FUNCTION_BREAKS',
    title: 'the body of a function no longer works',
    condition:
      'A function or procedure in SQL or PL/pgSQL names a table, column, function or type that the command dropped or renamed, or its queries are refused for another reason than before: a column of another type, a constraint that ON CONFLICT names, other columns than RETURN QUERY needs, a new body or search_path. The queries are analyzed on the clone, before the command and after it. Not found: texts that a function makes at run time (EXECUTE), and fields of variables of type record.',
    effect:
      'PostgreSQL does not know what a body names, so the migration succeeds; the function fails when it is called, and with a trigger each write to its table.',
    safer:
      'Replace the function in the same transaction, or before, by one that does without the name (https://www.postgresql.org/docs/current/ddl-depend.html).',
    find: (context) =>
      context.facts.catalogue.effects.brokenFunctions.map((broken): Finding => {
        const { function: name, names, error, triggersOn } = broken;
        const [relation = null] = triggersOn;
        const causes = names === null ? breaking(context, broken) : [];
        return {
          statement:
            names === null ? onlyOf(causes) : losing(context, { schema: names.within, name: names.name }),
          relation,
          severity: relation === null ? 'warning' : 'error',
          message: `the function ${name} ${names === null ? 'no longer works' : `names ${names.name}, which is gone`}${relation === null ? '' : `: writes to ${listed(triggersOn)} run it and fail`}`,
          evidence: `analyzed on the clone after the command: ${error}${causeWords(causes)}`,
          advice: `Replace ${name} in the same transaction, or before.`,
        };
      }),
  },
  {
    code: 'CALL_AMBIGUOUS',
    title: 'calls of a function fit a new one of its name as well',
    condition:
      'The command made a function beside one of the same name, and a call that fits only the old one before fits both afterwards: a new parameter with a DEFAULT makes a second function. Calls with NULLs of the old parameter types are prepared on the clone, before the command and after it. A notice if only calls whose arguments have no type are refused, as those of some drivers.',
    effect: 'Running code that calls the function fails with SQLSTATE 42725: the function is not unique.',
    safer: 'DROP the old function in the same transaction, or give the new one another name.',
    find: (context) =>
      context.facts.catalogue.effects.ambiguous.map((each): Finding => {
        const { function: name, others, call, typed, error } = each;
        return {
          statement:
            others.map((other) => statementOfFunction(context, other)).find((index) => index !== null) ??
            null,
          relation: null,
          severity: typed ? 'warning' : 'notice',
          message: `calls of ${name} fit ${listed(others)} as well, and ${typed ? 'fail' : 'fail if their arguments have no types'}`,
          evidence: `prepared on the clone, SELECT ${call}: ${error} (SQLSTATE 42725)`,
          advice: sqlAdvice(
            'In the same transaction, if the new one is to take its place:',
            `DROP FUNCTION ${name}`,
          ),
        };
      }),
  },
  {
    code: 'NEW_OBJECT_NOT_GRANTED',
    title: 'a role may not use a new table or view, unlike the others of the schema',
    condition:
      'A new table or view lacks a privilege (SELECT, INSERT, UPDATE, DELETE) that a role which can log in, or has members, was granted on nine of ten or more of the other relations of the schema, of three at least. With a profile, by the grants and default privileges of production, as if the owner of most of the schema made it there. A privilege to write counts on a view only if the view can be written, and the role may not read it. Not if the command revokes privileges on it from the role.',
    effect:
      'Code that runs as this role fails with SQLSTATE 42501 when it uses the new object: the migration succeeds because the role that runs it owns the object.',
    safer: `${GRANT_AT_ONCE}, or ALTER DEFAULT PRIVILEGES for the role that runs the migrations (https://www.postgresql.org/docs/current/sql-alterdefaultprivileges.html).`,
    find: newWithoutGrants,
  },
  {
    code: 'GRANTS_NOT_RESTORED',
    title: 'a table, view or function is made again without the privileges that roles had',
    condition:
      'A table or view is made again under its name, and a role lacks a privilege that it had on the former one. Or a function is dropped and made again with other arguments or another result, and a role that could call the old one may not call the new one: a role of an application, or one that EXECUTE was granted to. Not if the command revokes privileges on it from the role, or closes a function to PUBLIC and lets other roles call it.',
    effect: 'Code that runs as this role fails with SQLSTATE 42501: privileges end with their object.',
    safer: `${GRANT_AT_ONCE}, or change the object in place: CREATE OR REPLACE keeps its privileges (https://www.postgresql.org/docs/current/sql-createview.html).`,
    find: madeAgainWithoutGrants,
  },
  {
    code: 'SEQUENCE_NOT_GRANTED',
    title: 'a role may insert into a table, and not use the sequence of its column',
    condition:
      'A role may INSERT into a table, and has neither USAGE nor UPDATE on the sequence from which a default takes its values, as that of serial. The column or the INSERT is new. Not if the command revokes the privileges on the sequence.',
    effect:
      'Each INSERT that leaves the value to the default fails with SQLSTATE 42501: a GRANT on the table does not include the sequence.',
    safer: `${GRANT_AT_ONCE} on the sequence too, or make the column an identity (https://www.postgresql.org/docs/current/ddl-identity-columns.html).`,
    find: sequencesWithoutGrants,
  },
  {
    code: 'NOTHING_APPLIED',
    title: 'the command succeeds, and has not applied a migration',
    condition:
      'The command succeeded and used the history table of its tool. The folder of the recorded migrations has another file: earlier than the last recorded one, with the version of another file, or with a name that the tool ignores. A later one counts if the command recorded nothing. Read for Prisma, Drizzle, Flyway, Rails, dbmate, goose, sqlx, Alembic, Knex, node-pg-migrate, Sequelize and TypeORM; for golang-migrate only later ones. With --expect changes, it is also the reason if the command changed nothing at all.',
    effect:
      'The deployment continues as if the migration had been applied: the new code fails on the old schema, and no later run applies the file.',
    safer:
      'Give each migration a version later than all that are applied, and one that no other has; rebase a branch before its migrations are merged.',
    find: (context) => {
      const { unapplied } = context.facts.catalogue.effects;
      const written = context.facts.data?.written.map(({ relation }) => relation);
      // A command may apply one migration at a time, and leave the later ones.
      const told = unapplied.filter(
        ({ why, relation }) => why !== 'pending' || (written && !written.includes(relation)),
      );
      return [...new Set(told.map(({ tool, why }) => `${tool} ${why}`))].flatMap((group): Finding[] => {
        const own = told.filter(({ tool, why }) => `${tool} ${why}` === group);
        const [first] = own;
        if (!first) return [];
        const { message, advice } = UNAPPLIED[first.why];
        return [
          {
            statement: null,
            relation: first.relation,
            severity: 'warning',
            message: message(first.tool, listed(own.map(({ file }) => file))),
            evidence: `compared with the rows of ${first.relation} after the command`,
            advice,
          },
        ];
      });
    },
  },
];

const UNAPPLIED: Readonly<
  Record<
    UnappliedFile['why'],
    { readonly message: (tool: string, files: string) => string; readonly advice: string }
  >
> = {
  'passed over': {
    message: (tool, files) => `${tool} passes over ${files}, since later migrations are applied`,
    advice: 'Give it a version later than the last applied one, and rehearse again.',
  },
  pending: {
    message: (tool, files) => `${tool} applied nothing, and has not applied ${files}`,
    advice: 'Check from which folder, list or build the command reads migrations.',
  },
  'same version': {
    message: (tool, files) => `${tool} has applied only one of ${files}: they have the same version`,
    advice: 'Give each of them another version.',
  },
  ignored: {
    message: (tool, files) => `${tool} ignores ${files}`,
    advice: 'Give the file a name that the tool takes, or add it to the list of migrations in its folder.',
  },
};

/** The indexes of the statements that may have broken a function: its own, or those about an object in its body. */
function breaking(context: HazardContext, { function: name, mentions }: BrokenFunction): number[] {
  const own = statementOfFunction(context, name);
  if (own !== null) return [own];
  const relations = mentions.map((object) => displayName(...nameParts(object).slice(0, 2)));
  const causes = statementsChanging(context, relations);
  const words = mentions.map((object) => bare(object).toLowerCase());
  const naming = causes.filter(({ sql }) => words.some((word) => isNamed(sql.toLowerCase(), word)));
  return (naming.length > 0 ? naming : causes).map(({ index }) => index);
}

/** The statement that drops or renames what had a name. @param lost with its schema; a column, with its table. */
function losing(context: HazardContext, lost: Name): number | null {
  const within = lost.schema ?? '';
  const found: { statement: StatementSection; isSure: boolean }[] = [];
  const note = (statement: StatementSection, name: string | null | undefined, isSure: boolean) => {
    if (name === lost.name) found.push({ statement, isSure });
  };
  const isTable = (table: Name | null, statement: StatementSection) =>
    table !== null && bare(context.resolve(table, statement)) === within;
  for (const { action, statement } of context.actionsOf('drop column'))
    note(statement, action.column, isTable(action.table, statement));
  for (const { action, statement } of context.actionsOf('drop'))
    for (const name of action.objects) note(statement, name.name, context.reaches(name, within, statement));
  for (const { action, statement } of context.actionsOf('rename')) {
    if (action.to === lost.name) continue;
    note(statement, action.column, isTable(action.table, statement));
    for (const name of action.column === null ? [action.table, action.object] : [])
      note(statement, name?.name, name !== null && context.reaches(name, within, statement));
  }
  // The search path is not always known.
  return (found.find(({ isSure }) => isSure) ?? found[0])?.statement.index ?? null;
}
