/** How a script takes a hazard away; safer-forms.ts writes it. */
interface SaferForm {
  /** Words for its comments. */
  readonly words: string;
  /** The hazard is one of a transaction as a whole: its statements get one each. */
  readonly divides?: true;
  /** The hazard is one of all UPDATEs and DELETEs of a transaction. */
  readonly ofRows?: true;
  /** The script does it only if it is asked for more (`--propose-all`). */
  readonly asked?: true;
  /** The major version from which the server has that form. */
  readonly from?: number;
}

const NOT_VALID = 'added NOT VALID, then validated while others write';
const PROVED = 'proved by a CHECK while others write';
const REPACKED = { words: 'copied while others read and write', from: 19 } as const;
const RELEASED = 'the lock released before the work';

/** The hazards that a script can take away, by their codes. */
const FORMS = {
  INDEX_NOT_CONCURRENT: { words: 'built while others write' },
  DROP_INDEX_NOT_CONCURRENT: { words: 'dropped without a queue behind it' },
  REINDEX_NOT_CONCURRENT: { words: 'rebuilt while others write' },
  REFRESH_NOT_CONCURRENT: { words: 'refreshed while others read' },
  TABLESPACE_REWRITES: { words: 'moved while others write' },
  CONSTRAINT_BUILDS_INDEX: { words: 'its index built while others write' },
  PRIMARY_KEY_SETS_NOT_NULL: { words: PROVED },
  CHECK_SCANS_TABLE: { words: NOT_VALID },
  FOREIGN_KEY_SCANS_TABLE: { words: NOT_VALID },
  SET_NOT_NULL_SCANS_TABLE: { words: PROVED },
  ATTACH_PARTITION_SCANS_TABLE: { words: PROVED },
  DETACH_PARTITION_NOT_CONCURRENT: { words: 'detached while others read and write' },
  VOLATILE_DEFAULT_REWRITES: { words: 'added empty, then filled in batches' },
  BACKFILL_IN_ONE_TRANSACTION: {
    words: 'in batches, with a commit after each',
    divides: true,
    ofRows: true,
  },
  BACKFILL_WITH_DDL: {
    words: 'in batches, after the lock is released',
    divides: true,
    ofRows: true,
  },
  SEVERAL_STRONG_LOCKS: { words: 'one transaction for each lock', divides: true },
  WORK_AFTER_STRONG_LOCK: { words: RELEASED, divides: true },
  TRIGGER_IN_LONG_TRANSACTION: { words: RELEASED, divides: true },
  FOREIGN_KEY_VALIDATED_AT_ONCE: { words: 'validated in a transaction of its own', divides: true },
  STATISTICS_MISSING: { words: 'statistics for the planner' },
  VACUUM_FULL: REPACKED,
  CLUSTER: REPACKED,
  REPACK: REPACKED,
  TYPE_CHANGE_REWRITES: {
    words: 'a new column, filled in batches, takes the place of the old one, as the last column of its table',
    asked: true,
  },
} satisfies Record<string, SaferForm>;

export type ScriptedCode = keyof typeof FORMS;

function formOf(code: string): SaferForm | undefined {
  return Object.hasOwn(FORMS, code) ? FORMS[code as ScriptedCode] : undefined;
}

const WHOLE_TABLE = 'the table can only be rewritten as a whole';
const WHOLE_TABLE_BEFORE_19 = 'before PostgreSQL 19 the table can only be rewritten as a whole';

/** Reasons of hazards that block others, and that no script takes away. */
const STAYING: Readonly<Record<string, string>> = {
  EXCLUSION_CONSTRAINT: 'its index cannot be built while others write',
  GENERATED_COLUMN_REWRITES: 'a stored column is computed for all rows at once',
  IDENTITY_REWRITES: 'the rows are numbered at once',
  ENFORCED_SCANS_TABLE: 'the statement does not have its definition',
  DOMAIN_CONSTRAINT_SCANS_TABLES: 'to validate it blocks writes as well',
  SET_LOGGED_REWRITES: WHOLE_TABLE,
  ACCESS_METHOD_REWRITES: WHOLE_TABLE,
  CLUSTER: WHOLE_TABLE_BEFORE_19,
  VACUUM_FULL: WHOLE_TABLE_BEFORE_19,
};

/** Limits of the forms that a script may have. */
export interface Forms {
  /** Also those that are written only when they are asked for. */
  readonly all?: boolean;
  /** The target's server_version. */
  readonly version: string;
}

/** Tells if a script takes a hazard away. */
export function isScripted(code: string, { all = false, version }: Forms): boolean {
  const form = formOf(code);
  if (form === undefined || Number.parseInt(version, 10) < (form.from ?? 0)) return false;
  return all || form.asked !== true;
}

/** Says what a script does about a hazard, for its comments. */
export function wordsOfForm(code: string): string {
  return formOf(code)?.words ?? '';
}

/** The hazard that locks at the beginning of a transaction take away, so that it stays one. */
export const LOCKS_FIRST = {
  code: 'SEVERAL_STRONG_LOCKS',
  words: 'all locks taken at the beginning, in one order',
} as const;

/** Tells if a hazard is taken away by dividing its transaction. */
export function isDividing(code: string): boolean {
  return formOf(code)?.divides === true;
}

/** Tells if a hazard is one of all UPDATEs and DELETEs of a transaction. */
export function isOfRows(code: string): boolean {
  return formOf(code)?.ofRows === true;
}

/** Tells if a script takes a hazard away only if it is asked for more. */
export function isAskedFor(code: string, forms: Forms): boolean {
  return isScripted(code, { ...forms, all: true }) && !isScripted(code, forms);
}

/** Returns why a statement with this hazard is left as it was, whatever is in it; null if that is not so. */
export function reasonToStay(code: string, { version }: Forms): string | null {
  const reason = STAYING[code];
  if (reason === undefined || isScripted(code, { all: true, version })) return null;
  return `${reason}; \`safemigrate explain ${code}\` says what to do instead`;
}
