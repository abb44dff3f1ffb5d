import type { ProbeDifference } from '../../model/probe-difference.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { resultWords } from './probe-differences.ts';
import { readSequences } from './sequence-probes.ts';
import { lastResult, SAME_ROWS } from './try-probes.ts';

const SETTINGS = [
  "SET LOCAL statement_timeout = '1s'",
  "SET LOCAL lock_timeout = '100ms'",
  'SET LOCAL search_path TO DEFAULT',
  ...SAME_ROWS.map((setting) => `SET LOCAL ${setting}`),
  'SET CONSTRAINTS ALL IMMEDIATE',
];
const SAVEPOINT = 'safemigrate_probe';

/**
 * Tells whether a probe has the result by now that it had after the command. It leaves no row; values of sequences stay used up.
 * @param isInside the session is in a transaction.
 */
export async function differsAgain(
  session: Session,
  { kind, relation, subject, sql, after }: ProbeDifference,
  isInside: boolean,
): Promise<boolean> {
  if (kind === 'sequence behind')
    return (await readSequences(session)).some(
      (each) => each.behind && each.relation === relation && each.column === subject,
    );
  const [begin, undo] = isInside
    ? [`SAVEPOINT ${SAVEPOINT}`, `ROLLBACK TO SAVEPOINT ${SAVEPOINT}; RELEASE SAVEPOINT ${SAVEPOINT}`]
    : ['BEGIN READ WRITE', 'ROLLBACK'];
  await session.query(begin);
  const result = await lastResult(session, [...SETTINGS, sql]);
  await session.query(undo);
  return result !== null && resultWords(result, after.startsWith('result ')) === after;
}
