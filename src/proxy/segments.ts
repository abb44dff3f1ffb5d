import { changesReading } from '../postgres/sql/classify-statement.ts';
import type { ParsedStatement } from '../postgres/sql/parse.ts';

/**
 * A part of a text of several statements that can be sent one by one without changing the text's meaning.
 *
 * The server runs such a text in one implicit transaction, which ends with the text; a BEGIN … COMMIT inside is an
 * explicit block of its own, behind which a new implicit transaction starts. So the text is a series of segments:
 * implicit ones, which are sent between our own BEGIN and COMMIT, and explicit ones, which are sent as they are.
 */
export interface Segment {
  readonly implicit: boolean;
  /** What is sent at once: one statement, or neighbours of like DML. */
  readonly groups: readonly (readonly ParsedStatement[])[];
}

/**
 * Splits a text into segments.
 * @param inBlock a transaction is open already.
 * @returns undefined if the text has no such form, and must be sent whole.
 */
export function segmentsOf(
  statements: readonly ParsedStatement[],
  inBlock: boolean,
): readonly Segment[] | undefined {
  const [only] = statements;
  if (statements.length === 1 && only && !inBlock && !only.wraps) return undefined;
  if (statements.length > 1 && statements.some(({ node }) => changesReading(node))) return undefined;
  const segments: { implicit: boolean; statements: ParsedStatement[] }[] = [];
  let open: { implicit: boolean; statements: ParsedStatement[] } | undefined;
  if (inBlock) {
    open = { implicit: false, statements: [] };
    segments.push(open);
  }
  for (const statement of statements) {
    if (statement.role === 'begin') {
      // Inside a block it warns; behind an implicit segment the server makes both one block.
      if (open) return undefined;
      open = { implicit: false, statements: [] };
      segments.push(open);
    } else if (!open) {
      open = { implicit: true, statements: [] };
      segments.push(open);
    }
    if (open.implicit && statement.role !== 'ordinary') return undefined;
    if (statement.role === 'prepare-transaction') return undefined;
    open.statements.push(statement);
    if (statement.role === 'end') open = undefined;
  }
  return segments.map(({ implicit, statements }) => ({ implicit, groups: groupsOf(statements) }));
}

/** Groups neighbours with the same normalised text; everything else is alone. */
function groupsOf(statements: readonly ParsedStatement[]): ParsedStatement[][] {
  const groups: ParsedStatement[][] = [];
  for (const statement of statements) {
    const group = groups.at(-1);
    if (group && statement.shape !== null && group[0]?.shape === statement.shape) group.push(statement);
    else groups.push([statement]);
  }
  return groups;
}
