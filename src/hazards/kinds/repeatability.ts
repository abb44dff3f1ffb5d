import { normalizeSql } from '../../postgres/sql/normalize.ts';
import type { HazardContext } from '../hazard-context.ts';
import type { Finding, HazardRecord } from '../hazard-definition.ts';

const ADVICE = 'Give it a name or value that is written in the migration. Otherwise: --on-divergence warn.';

/** What would differ when the command runs on the target. */
export const REPEATABILITY: readonly HazardRecord[] = [
  {
    code: 'DIFFERS_EVERY_RUN',
    title: 'a definition is another one in every run of the command',
    condition:
      'A definition contains the time of this run, to the second (as text, number or UUID), or a name in it contains a random UUID, or --rerun sent it with another name. The constants of a DEFAULT, a comment, and of arguments of CALL and EXECUTE do not count.',
    effect:
      '--apply runs only what was rehearsed, so that it would stop there, perhaps after it has committed statements before. Every environment gets other names.',
    safer:
      'Write names and values into the migration, or let the server compute them: DEFAULT now(), gen_random_uuid().',
    find: (context) => [...variations(context), ...renamedByRerun(context)],
  },
];

function variations(context: HazardContext): Finding[] {
  return context.facts.statements.flatMap((statement) => {
    const [first] = context.actionsIn(statement, 'vary').sort((a, b) => +b.action.isTime - +a.action.isTime);
    if (!first || statement.error !== null) return [];
    const { value, isTime } = first.action;
    return [
      {
        statement: statement.index,
        relation: null,
        severity: isTime ? 'warning' : 'notice',
        message: isTime
          ? 'the definition contains the time of this run: --apply would stop there'
          : 'the definition has a random UUID in a name: if it is made at run time, --apply would stop there',
        evidence: `${value}${isTime ? `; the statement began at ${statement.startedAt}` : ''}.`,
        advice: ADVICE,
      },
    ];
  });
}

/** Numbers and what looks like a hash, within a name. */
const VARIABLE_PART = /[0-9a-f]*\d[0-9a-f]*/gi;

function renamedByRerun(context: HazardContext): Finding[] {
  const { statements, rerun, parsed } = context.facts;
  if (rerun === null) return [];
  const first = new Set(statements.map(({ sql }) => normalizeSql(sql)));
  const again = new Set(rerun.statements.map(({ sql }) => normalizeSql(sql)));
  const added = [...again].filter((sql) => !first.has(sql));
  const alike = new Map(added.map((sql) => [sql.replace(VARIABLE_PART, '#'), sql]));
  return statements.flatMap((statement) => {
    const sql = normalizeSql(statement.sql);
    const other = again.has(sql) ? undefined : alike.get(sql.replace(VARIABLE_PART, '#'));
    const isDefinition = parsed.get(statement.index)?.effect === 'schema';
    if (!isDefinition || other === undefined || context.actionsIn(statement, 'vary').length > 0) return [];
    return [
      {
        statement: statement.index,
        relation: null,
        // A counter, like that of partitions, starts on the target as it did on the clone.
        severity: 'notice',
        message:
          'the second run (--rerun) sent the definition with another name: unless that counts on, --apply would stop there',
        evidence: `The second run sent: ${other}.`,
        advice: ADVICE,
      },
    ];
  });
}
