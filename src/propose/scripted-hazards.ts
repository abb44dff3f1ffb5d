const NOT_VALID = 'added NOT VALID, then validated while others write';
const PROVED = 'proved by a CHECK while others write';
const RELEASED = 'the lock released before the work';

/** The hazards that a script can take away, by their codes, and how it does. */
const SCRIPTED = {
  INDEX_NOT_CONCURRENT: 'built while others write',
  DROP_INDEX_NOT_CONCURRENT: 'dropped without a queue behind it',
  REINDEX_NOT_CONCURRENT: 'rebuilt while others write',
  REFRESH_NOT_CONCURRENT: 'refreshed while others read',
  TABLESPACE_REWRITES: 'moved while others write',
  CONSTRAINT_BUILDS_INDEX: 'its index built while others write',
  PRIMARY_KEY_SETS_NOT_NULL: PROVED,
  CHECK_SCANS_TABLE: NOT_VALID,
  FOREIGN_KEY_SCANS_TABLE: NOT_VALID,
  SET_NOT_NULL_SCANS_TABLE: PROVED,
  ATTACH_PARTITION_SCANS_TABLE: PROVED,
  DETACH_PARTITION_NOT_CONCURRENT: 'detached while others read and write',
  VOLATILE_DEFAULT_REWRITES: 'added empty, then filled in batches',
  BACKFILL_IN_ONE_TRANSACTION: 'in batches, with a commit after each',
  BACKFILL_WITH_DDL: 'in batches, after the lock is released',
  SEVERAL_STRONG_LOCKS: 'one transaction for each lock',
  WORK_AFTER_STRONG_LOCK: RELEASED,
  TRIGGER_IN_LONG_TRANSACTION: RELEASED,
  FOREIGN_KEY_VALIDATED_AT_ONCE: 'validated in a transaction of its own',
  STATISTICS_MISSING: 'statistics for the planner',
} as const;

/** Those that it takes away if it is asked for more (`--propose-all`). */
const ASKED = {
  TYPE_CHANGE_REWRITES:
    'a new column, filled in batches, takes the place of the old one, as the last column of its table',
} as const;

const WORDS: Readonly<Record<string, string>> = { ...SCRIPTED, ...ASKED };

export type ScriptedCode = keyof typeof SCRIPTED | keyof typeof ASKED;

/** @param all also what is only done if it is asked for. */
export function isScripted(code: string, all = false): code is ScriptedCode {
  return Object.hasOwn(all ? WORDS : SCRIPTED, code);
}

/** What a script does about a hazard, for its comments. */
export function wordsOfForm(code: string): string {
  return WORDS[code] ?? '';
}

const WHOLE_TABLE = 'the table can only be rewritten as a whole';

/** Those that block others, and that no script takes away: why. */
const STAYING: Readonly<Record<string, string>> = {
  EXCLUSION_CONSTRAINT: 'its index cannot be built while others write',
  GENERATED_COLUMN_REWRITES: 'a stored column is computed for all rows at once',
  IDENTITY_REWRITES: 'the rows are numbered at once',
  DOMAIN_CONSTRAINT_SCANS_TABLES: 'to validate it blocks writes as well, but on PostgreSQL 18',
  SET_LOGGED_REWRITES: WHOLE_TABLE,
  ACCESS_METHOD_REWRITES: WHOLE_TABLE,
  CLUSTER: WHOLE_TABLE,
  VACUUM_FULL: WHOLE_TABLE,
};

/** Why a statement with this hazard is left as it was, whatever is in it; null if that is not so. @param all as for isScripted() */
export function reasonToStay(code: string, all: boolean): string | null {
  if (isScripted(code, true))
    return isScripted(code, all) ? null : `--propose-all writes it: ${wordsOfForm(code)}`;
  const reason = STAYING[code];
  return reason === undefined ? null : `${reason}; \`safemigrate explain ${code}\` says what to do instead`;
}
