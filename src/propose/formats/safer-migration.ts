import type { ScriptPart } from '../write-script.ts';

/** The migration of the command, by what its tool recorded. */
export interface RecordedMigration {
  readonly name: string;
  /** The one before it, for a tool that records that. */
  readonly previous: string | null;
}

/** A safer form that is to take a migration's place. */
export interface SaferMigration {
  readonly recorded: RecordedMigration;
  /** The script without what the tool records about itself. */
  readonly parts: readonly ScriptPart[];
  /** Lines for a comment. */
  readonly heading: readonly string[];
}

/** Texts by the paths of their files. */
export type MigrationFiles = ReadonlyMap<string, string>;

/** Lines of a text as comments. */
export function commented(lines: readonly string[], sign: string): string[] {
  return lines.flatMap((text) => text.split(/\r\n?|\n/)).map((line) => `${sign} ${line}`.trimEnd());
}
