/**
 * One statement of a kind that reaches beyond its database only by what it names: functions, or relations that run some. Another
 * statement could only stand behind a semicolon.
 */
const PLAIN =
  /^\s*(?:insert|update|delete|merge|select|alter\s+table|create\s+(?:table|(?:unique\s+)?index)|drop\s+(?:table|index))\b[^;]*(?:;\s*)?$/i;

/** Tells by the words of a text that `classifyScope` finds it within the clone, and that only the names in it can reach beyond. */
export function isPlainStatement(sql: string): boolean {
  return PLAIN.test(sql);
}
