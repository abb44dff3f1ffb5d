import { sqlstateOf } from '../../errors.ts';
import type { ViolatedConstraint } from '../../model/effect-facts.ts';
import type { SchemaSection } from '../../model/report.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { identifier, nameParts } from '../../postgres/sql/quote.ts';

const BEGIN = ['BEGIN READ WRITE', "SET LOCAL statement_timeout = '10s'"];
const VIOLATION = new Set(['23503', '23514']);

/** Tries VALIDATE CONSTRAINT for those that the command left NOT VALID, and rolls it back. */
export async function violatedConstraints(
  session: Session,
  { leftovers }: SchemaSection,
): Promise<ViolatedConstraint[]> {
  const left = leftovers.filter(({ kind, preexisting }) => kind === 'constraint not valid' && !preexisting);
  const found: ViolatedConstraint[] = [];
  for (const { object } of left) {
    const parts = nameParts(object);
    const owner = parts.slice(0, -1).map(identifier).join('.');
    const validate = `VALIDATE CONSTRAINT ${identifier(parts.at(-1) ?? '')}`;
    const error =
      (await failureOf(session, `ALTER TABLE ${owner} ${validate}`)) ??
      (await failureOf(session, `ALTER DOMAIN ${owner} ${validate}`));
    if (error) found.push({ constraint: object, error });
  }
  return found;
}

/** The message of the server if rows violate the constraint; null: they do not, or it is not known. */
async function failureOf(session: Session, sql: string): Promise<string | null> {
  try {
    await session.queryAll([...BEGIN, sql]);
    return null;
  } catch (error) {
    const sqlstate = sqlstateOf(error);
    if (sqlstate === undefined) throw error;
    return VIOLATION.has(sqlstate) ? (error as Error).message : null;
  } finally {
    await session.query('ROLLBACK');
  }
}
