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

export type ScriptedCode = keyof typeof SCRIPTED;

export function isScripted(code: string): code is ScriptedCode {
  return Object.hasOwn(SCRIPTED, code);
}

/** What a script does about a hazard, for its comments. */
export function wordsOfForm(code: string): string {
  return isScripted(code) ? SCRIPTED[code] : '';
}
