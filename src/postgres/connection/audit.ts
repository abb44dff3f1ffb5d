/** Records each statement that safemigrate itself sends, before it is sent (`--audit`, `--plan`). */
export type Audit = (entry: AuditEntry) => void;

export interface AuditEntry {
  /** ISO 8601. */
  readonly at: string;
  readonly database: string;
  /** The purpose of the session: `control`, `inspect`, `clone`, … */
  readonly purpose: string;
  readonly sql: string;
  readonly values: readonly unknown[];
}
