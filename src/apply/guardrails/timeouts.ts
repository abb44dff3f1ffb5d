import { kindOf, type Node } from '../../postgres/sql/statement-kinds.ts';

const TIMEOUTS = ['lock_timeout', 'statement_timeout', 'idle_in_transaction_session_timeout'] as const;

/** The timeout that a statement sets: by SET, or by set_config(), whose value is not looked for. */
export function settingBy(node: Node, sql: string): { setting: string; value: string | null } | undefined {
  const kind = kindOf(node);
  if (kind === 'VariableSetStmt') {
    const { name } = (node as { VariableSetStmt: { name?: string } }).VariableSetStmt;
    if (!TIMEOUTS.some((timeout) => timeout === name)) return undefined;
    return { setting: name ?? '', value: /(?:=|\bto\b)\s*(.+?)\s*;?$/is.exec(sql)?.[1] ?? null };
  }
  if (kind !== 'SelectStmt') return undefined;
  const text = JSON.stringify(node);
  if (!text.includes('"set_config"')) return undefined;
  const setting = TIMEOUTS.find((timeout) => text.includes(`"${timeout}"`));
  return setting && { setting, value: null };
}
