import type { RefusedType } from '../../model/effect-facts.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { refusalOf } from '../../postgres/session-helpers.ts';
import { identifier, nameParts } from '../../postgres/sql/quote.ts';
import type { Retyped } from '../../schema/type-changes.ts';

/** No cast on assignment, no operator for the two types. */
const OF_TYPES = ['42804', '42883'];
const MOST_COLUMNS = 100;

/** Finds columns that refuse values of the type that they had, or no longer compare with them. Nothing of it runs. */
export async function refusedTypes(session: Session, retyped: readonly Retyped[]): Promise<RefusedType[]> {
  const refused: RefusedType[] = [];
  for (const { object, from } of retyped.slice(0, MOST_COLUMNS)) {
    const [schema = '', table = '', column = ''] = nameParts(object);
    const relation = `${identifier(schema)}.${identifier(table)}`;
    const value = `NULL::${from}`;
    const stored = await refusalOf(session, `UPDATE ${relation} SET ${identifier(column)} = ${value}`);
    // Some types compare with nothing, not even with themselves.
    const compares = (await refusalOf(session, `SELECT ${value} = ${value}`)) === null;
    const compared = compares
      ? await refusalOf(session, `SELECT FROM ${relation} WHERE ${identifier(column)} = ${value}`)
      : null;
    const [found] = [stored, compared].filter((each) => each && OF_TYPES.includes(each.sqlstate));
    if (found) refused.push({ object, from, stored: found === stored, ...found });
  }
  return refused;
}
