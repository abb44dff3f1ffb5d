import type { StatementSection } from './statement-model.ts';

/** Returns how many statements the command sent. */
export function sentStatements(statements: readonly StatementSection[]): number {
  return statements.reduce((count, { repeated }) => count + (repeated?.count ?? 1), 0);
}

/** Returns the time of the statement, in milliseconds; of repeated ones that of the longest. */
export function longestMs({ durationMs, repeated }: StatementSection): number {
  return repeated?.maxMs ?? durationMs;
}
