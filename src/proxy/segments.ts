import { changesReading } from '../postgres/sql/classify-statement.ts';
import type { ParsedStatement } from '../postgres/sql/parse.ts';

/**
 * How a text of several statements is sent one by one without changing what it means.
 *
 * The server runs such a text in one implicit transaction, which ends with the text; a BEGIN … COMMIT inside is an
 * explicit block of its own, behind which a new implicit transaction starts. So the text is a row of segments:
 * implicit ones, which are sent between our own BEGIN and COMMIT, and explicit ones, which are sent as they are.
 */
export interface Segment {
  readonly implicit: boolean;
  /** What is sent at once: one statement, or a run of like DML. */
  readonly runs: readonly (readonly ParsedStatement[])[];
}

/** undefined: the text has no such form, and must be sent whole. `inBlock`: a transaction is open already. */
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
  return segments.map(({ implicit, statements }) => ({ implicit, runs: runsOf(statements) }));
}

/** Neighbours of the same shape go together; everything else alone. */
function runsOf(statements: readonly ParsedStatement[]): ParsedStatement[][] {
  const runs: ParsedStatement[][] = [];
  for (const statement of statements) {
    const run = runs.at(-1);
    if (run && statement.shape !== null && run[0]?.shape === statement.shape) run.push(statement);
    else runs.push([statement]);
  }
  return runs;
}
