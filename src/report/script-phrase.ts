import { plural } from '../format.ts';
import type { ScriptSection } from '../model/report.ts';

/** What came of --script, in a sentence. */
export function scriptWords({ file, reason, statements, transactions }: ScriptSection): string {
  if (file === null) return `no script is written: ${reason}`;
  return `${file} has ${plural(statements, 'statement')} in ${plural(transactions, 'transaction')}, with their values: psql -f runs it`;
}
