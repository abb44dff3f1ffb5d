import type { StatementSection } from '../model/report.ts';
import type { StatementEffect, StatementFacts } from '../model/statement-actions.ts';
import { effectOfTag } from '../postgres/sql/classify-statement.ts';

/**
 * What a statement leaves behind. Of what the parser does not see (EXECUTE, a text that it did not accept) the server's
 * command tag tells.
 */
export function effectOfStatement(
  { index, tag }: Pick<StatementSection, 'index' | 'tag'>,
  parsed: ReadonlyMap<number, StatementFacts>,
): StatementEffect {
  const effect = parsed.get(index)?.effect ?? 'unknown';
  return effect === 'unknown' ? effectOfTag(tag) : effect;
}
