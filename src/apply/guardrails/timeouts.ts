import { fieldsIf, settingsNamedBy } from '../../postgres/sql/classify-statement.ts';
import type { Node } from '../../postgres/sql/tree.ts';

const TIMEOUTS = ['lock_timeout', 'statement_timeout', 'idle_in_transaction_session_timeout'] as const;

/** Returns the timeout that a statement sets: by SET, or by set_config(), whose value is not looked up. */
export function settingBy(node: Node, sql: string): { setting: string; value: string | null } | undefined {
  const settings = settingsNamedBy(node);
  const setting = TIMEOUTS.find((timeout) => settings.includes(timeout));
  if (setting === undefined) return undefined;
  if (!fieldsIf(node, 'VariableSetStmt')) return { setting, value: null };
  return { setting, value: /(?:=|\bto\b)\s*(.+?)\s*;?$/is.exec(sql)?.[1] ?? null };
}
