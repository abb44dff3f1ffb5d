import type { AlreadyThere } from '../../model/effect-facts.ts';
import { isBookkeeping } from '../../model/migration-tables.ts';
import type { StatementSection } from '../../model/report.ts';
import type { Name } from '../../model/statement-actions.ts';
import { beginsAsData, beginsAsIncidental } from '../../postgres/sql/classify-statement.ts';
import { normalizeSql, plainOf } from '../../postgres/sql/normalize.ts';
import { displayName, nameParts } from '../../postgres/sql/quote.ts';
import type { HazardContext } from '../hazard-context.ts';
import type { Finding, HazardRecord } from '../hazard-definition.ts';

const ADVICE =
  'Give it a name or value that is written in the migration. Otherwise: --on-divergence warn. If it is written there already, allow this hazard.';

/** Definitions that would differ when the command runs on the target. */
export const REPEATABILITY: readonly HazardRecord[] = [
  {
    code: 'DIFFERS_EVERY_RUN',
    title: 'a definition is another one in every run of the command',
    condition:
      'A definition contains the time of this run, to the second or minute (as text, number or UUID), or a name in it contains a random UUID or an address of the memory of its process, or --rerun sent it with another name. The constants of a DEFAULT, a comment, and of arguments of CALL and EXECUTE do not count, nor do cursors, savepoints, prepared statements and temporary tables: an apply compares these without their names.',
    effect:
      'safemigrate apply runs only what was rehearsed, so that it would stop there: it refuses before its first statement. Every environment gets other names.',
    safer:
      'Write names and values into the migration, or let the server compute them: DEFAULT now(), gen_random_uuid().',
    find: (context) => [...variations(context), ...renamedByRerun(context)],
  },
  {
    code: 'IF_NOT_EXISTS_DIFFERS',
    title: 'IF NOT EXISTS finds another definition, and does nothing',
    condition:
      'CREATE TABLE, CREATE INDEX or ADD COLUMN with IF NOT EXISTS names something that existed before the command. Afterwards the table lacks a column that the statement has, a column has another type, or the index is of another table or of other columns. Lengths, defaults and constraints are not compared.',
    effect:
      'The statement succeeds with a notice. Code that was written for the new definition fails later, or finds no index.',
    safer:
      'Leave out IF NOT EXISTS, so that the migration fails here, and write the change from the present definition to the new one.',
    find: (context) =>
      context.facts.catalogue.effects.alreadyThere
        .filter((each) => existedBefore(context, each))
        .map(({ kind, statement, relation, name, is, asked }) => ({
          statement,
          relation,
          severity: 'warning',
          message:
            kind === 'index'
              ? `IF NOT EXISTS accepts the index ${displayName(name)}, which has another definition`
              : is === null
                ? `IF NOT EXISTS accepts ${relation}, which has no column ${displayName(name)}`
                : `IF NOT EXISTS accepts ${relation}.${displayName(name)}, which has another type`,
          evidence: `there is: ${is ?? 'no such column'}; the statement says: ${asked}`,
          advice: 'Write the change from what there is, without IF NOT EXISTS, or use another name.',
        })),
  },
];

/** Tells if the command found it: it did not make it, and does not drop the column later. */
function existedBefore(context: HazardContext, { kind, relation, name }: AlreadyThere): boolean {
  if (!context.relation(relation) || isBookkeeping(relation)) return false;
  if (context.changed('create', relation)) return false;
  const object =
    kind === 'index'
      ? displayName(...nameParts(relation).slice(0, -1), name)
      : `${relation}.${displayName(name)}`;
  const isOf = (table: Name | null, statement: StatementSection) =>
    table !== null && context.resolve(table, statement) === relation;
  const isDropped = context
    .actionsOf('drop column')
    .some(({ action, statement }) => action.column === name && isOf(action.table, statement));
  const isRenamed = context
    .actionsOf('rename')
    .some(({ action, statement }) => action.column === name && isOf(action.table, statement));
  return !context.changed('create', object) && (kind === 'index' || !(isDropped || isRenamed));
}

const SAYS = {
  time: 'the definition contains the time of this run: safemigrate apply would stop there',
  UUID: 'the definition has a random UUID in a name: if it is made at run time, safemigrate apply would stop there',
  address:
    "the definition has an address of its process's memory in a name: safemigrate apply would stop there",
} as const;

function variations(context: HazardContext): Finding[] {
  const { statements, rerun } = context.facts;
  const again = new Set(rerun?.statements.map(({ sql }) => plainOf(sql)));
  return statements.flatMap((statement) => {
    const varied = context.actionsIn(statement, 'vary').map(({ action }) => action);
    const first = varied.find(({ as }) => as === 'time') ?? varied[0];
    // An apply compares neither what concerns a session only, SAVEPOINT for example, nor the names in it.
    if (!first || statement.error !== null || beginsAsIncidental(statement.sql)) return [];
    const { value, as } = first;
    // The second run has shown that it is written in the migration.
    if (as !== 'time' && again.has(plainOf(statement.sql))) return [];
    return [
      {
        statement: statement.index,
        relation: null,
        severity: 'warning',
        message: SAYS[as],
        evidence: `${value}${as === 'time' ? `; the statement began at ${statement.startedAt}` : ''}.`,
        advice: ADVICE,
      },
    ];
  });
}

/** Numbers and what looks like a hash, within a name or a literal. */
const VARIABLE_PART = /[a-z0-9]*\d[a-z0-9]*/gi;
/** An apply permits other values in these. */
const PERMITS_VALUES = /\bdefault\b|^(?:comment|call|execute)\b/i;

function renamedByRerun(context: HazardContext): Finding[] {
  const { statements, rerun, parsed } = context.facts;
  if (rerun === null) return [];
  const first = new Set(statements.map(({ sql }) => comparedText(sql)));
  const again = new Set(rerun.statements.map(({ sql }) => comparedText(sql)));
  const added = [...again].filter((sql) => !first.has(sql));
  const alike = new Map(added.map((sql) => [sql.replace(VARIABLE_PART, '#'), sql]));
  return statements.flatMap((statement) => {
    const sql = comparedText(statement.sql);
    const other = again.has(sql) ? undefined : alike.get(sql.replace(VARIABLE_PART, '#'));
    const { effect = 'none', local = false } = parsed.get(statement.index) ?? {};
    const isCompared = !['none', 'reads'].includes(effect) && !isLetThrough(statement.sql) && !local;
    if (!isCompared || other === undefined || context.actionsIn(statement, 'vary').length > 0) return [];
    return [
      {
        statement: statement.index,
        relation: null,
        // A counter, like that of partitions, starts on the target as it did on the clone.
        severity: countsOn(sql, other) ? 'notice' : 'warning',
        message:
          'the second run (--rerun) sent the definition with another name or value: unless that counts on, safemigrate apply would stop there',
        evidence: `The second run sent: ${other}.`,
        advice: ADVICE,
      },
    ];
  });
}

const isLetThrough = (sql: string) => beginsAsData(sql) || beginsAsIncidental(sql);

/** Returns what an apply compares a definition by. */
const comparedText = (sql: string) => (PERMITS_VALUES.test(sql) ? normalizeSql(sql) : plainOf(sql));

/** Numbers that count on differ by less than this. */
const STEPS = 1_000;

/** Tells whether two texts differ only in numbers that are near each other, of no more than nine digits. */
function countsOn(one: string, other: string): boolean {
  if (one.replace(/\d+/g, '#') !== other.replace(/\d+/g, '#')) return false;
  const others = other.match(/\d+/g) ?? [];
  return (one.match(/\d+/g) ?? []).every((digits, at) => {
    const paired = others[at] ?? '';
    return (
      digits === paired ||
      (digits.length <= 9 && paired.length <= 9 && Math.abs(Number(digits) - Number(paired)) < STEPS)
    );
  });
}
