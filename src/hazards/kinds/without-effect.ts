import { listed } from '../../format.ts';
import type { StatementSection } from '../../model/report.ts';
import { type Finding, type HazardRecord, sqlAdvice } from '../hazard-definition.ts';
import type { Severity } from '../severity.ts';

/** Statements that succeed, and do not do what they say. */
export const WITHOUT_EFFECT: readonly HazardRecord[] = [
  {
    code: 'SERVER_WARNING',
    title: 'the server warns about a statement',
    condition:
      'A statement succeeded, and the server sent a message of level WARNING with an SQLSTATE of class 25 or 01: SET LOCAL outside of a transaction block, a REVOKE or GRANT that the role may not make. A notice for BEGIN, COMMIT and ROLLBACK, and for warnings that functions raise (SQLSTATE 01000). Messages of level NOTICE are not found.',
    effect:
      'The statement has no effect, or not all of it: without its SET LOCAL lock_timeout, for example, the next statement waits for its lock without a limit. Few tools show the message.',
    safer:
      'Put SET LOCAL and what it is for into one transaction block; run GRANT and REVOKE as the owner of the object or the role that granted.',
    find: (context) => context.facts.statements.flatMap(warned),
  },
];

/** Commands that do nothing if a transaction is open already, or none is. */
const OF_TRANSACTIONS = new Set(['BEGIN', 'START TRANSACTION', 'COMMIT', 'ROLLBACK']);
const BY_CODE = '01000';

function warned(statement: StatementSection): Finding[] {
  const { index, tag, error, warnings = [] } = statement;
  const told = warnings.filter(({ sqlstate }) => /^(?:01|25)/.test(sqlstate));
  const texts = [...new Set(told.map(({ message }) => message))];
  const [first] = told;
  if (!first || error !== null) return [];
  const isMild = told.every(({ sqlstate }) => sqlstate === BY_CODE) || OF_TRANSACTIONS.has(tag ?? '');
  const severity: Severity = isMild ? 'notice' : 'warning';
  return [
    {
      statement: index,
      relation: null,
      severity,
      message: `the server warns: ${texts.join('; ')}`,
      evidence: `a message of level WARNING (SQLSTATE ${listed([...new Set(told.map(({ sqlstate }) => sqlstate))])}); ${tag ?? 'the statement'} succeeded all the same`,
      advice:
        tag === 'SET'
          ? sqlAdvice('In one transaction block with the statements that it is for:', 'BEGIN', statement.sql)
          : 'Make sure that the statement has done what it is for.',
    },
  ];
}
