import type { StatementSection } from '../../model/report.ts';
import { plainOf } from '../../postgres/sql/normalize.ts';
import { shapeHash, shortHash } from '../../postgres/sql/statement-hashes.ts';
import { statementWithoutSecrets } from '../../postgres/sql/statement-secrets.ts';

/** The command's statements as a rehearsal has shown them, for telling whether the target is sent the same. */
export interface Rehearsed {
  /** In the order in which they began. */
  readonly statements: readonly RehearsedStatement[];
  /** Names of the target and of its clone, which are compared as one name. */
  readonly databases: readonly string[];
}

export interface RehearsedStatement {
  readonly index: number;
  readonly session: number;
  readonly sql: string;
  /** Hash of its shape. */
  readonly shape: string;
  readonly durationMs: number;
  readonly rows: number | null;
  readonly failed: boolean;
  /** Present if it represents a group: likeness hashes of members with other shapes. */
  readonly repeated?: readonly string[];
}

type Seen = Pick<StatementSection, 'index' | 'sql' | 'durationMs'> &
  Partial<Pick<StatementSection, 'error' | 'session' | 'repeated' | 'rows'>>;

export function rehearsedOf(statements: readonly Seen[], databases: readonly string[] = []): Rehearsed {
  return {
    databases,
    statements: statements.map(({ index, session = 1, sql, durationMs, rows = null, error, repeated }) => ({
      index,
      session,
      sql,
      durationMs,
      rows,
      failed: error != null,
      shape: shapeHash(sql),
      ...(repeated && { repeated: repeated.likenesses ?? [] }),
    })),
  };
}

/** Hashes a statement without its comments and spacing. Its passwords do not count: a report does not have them. */
export function textHash(sql: string, databases: readonly string[] = []): string {
  return shortHash(`text ${ofDatabase(plainOf(statementWithoutSecrets(sql)), databases)}`);
}

/**
 * In a rehearsal on the target's server its name is the clone's where a statement names a database; the limit of databases
 * that the command makes is our mark on them, and so is the comment of the clone.
 */
function ofDatabase(text: string, databases: readonly string[]): string {
  if (!/\bdatabase\b/i.test(text)) return text;
  const named = text.replace(
    /\b(database) (?:"([^"]+)"|(\w+))/gi,
    (all: string, word: string, quoted: string | undefined, plain: string) =>
      databases.includes(quoted ?? plain.toLowerCase()) ? `${word} ""` : all,
  );
  if (/^comment on database "" /i.test(named)) return 'COMMENT ON DATABASE ""';
  return /^(?:create|alter) database /i.test(named)
    ? named.replace(/ ?\bconnection limit ?=? ?-?\d+/i, '')
    : named;
}
