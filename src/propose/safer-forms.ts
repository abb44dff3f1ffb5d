import { alterTable } from './alter-table.ts';
import { inBatches } from './batches.ts';
import {
  buildConcurrently,
  dropConcurrently,
  moveIndex,
  refreshConcurrently,
  reindexConcurrently,
} from './concurrent-forms.ts';
import type { ScriptedCode } from './scripted-hazards.ts';
import type { Rewriting, Subject } from './subject.ts';

/** What takes the place of a statement in which a hazard was found. The other hazards are those of a transaction, or need no other form. */
const FORMS: Readonly<Partial<Record<ScriptedCode, (subject: Subject) => Rewriting>>> = {
  INDEX_NOT_CONCURRENT: buildConcurrently,
  DROP_INDEX_NOT_CONCURRENT: dropConcurrently,
  REINDEX_NOT_CONCURRENT: reindexConcurrently,
  REFRESH_NOT_CONCURRENT: refreshConcurrently,
  TABLESPACE_REWRITES: moveIndex,
  CONSTRAINT_BUILDS_INDEX: alterTable,
  PRIMARY_KEY_SETS_NOT_NULL: alterTable,
  CHECK_SCANS_TABLE: alterTable,
  FOREIGN_KEY_SCANS_TABLE: alterTable,
  SET_NOT_NULL_SCANS_TABLE: alterTable,
  ATTACH_PARTITION_SCANS_TABLE: alterTable,
  DETACH_PARTITION_NOT_CONCURRENT: alterTable,
  VOLATILE_DEFAULT_REWRITES: alterTable,
  TYPE_CHANGE_REWRITES: alterTable,
  BACKFILL_IN_ONE_TRANSACTION: inBatches,
  BACKFILL_WITH_DDL: inBatches,
};

/** Whether a hazard is taken away by another form of its statement. */
export function hasForm(code: string): boolean {
  return Object.hasOwn(FORMS, code);
}

/** Returns undefined for a statement in which no hazard was found that another form takes away. */
export function rewriteStatement(subject: Subject): Rewriting | undefined {
  const code = [...subject.codes].find(hasForm) as ScriptedCode | undefined;
  return code && FORMS[code]?.(subject);
}

/** Hazards of a transaction as a whole: its statements get one each. */
export const DIVIDING: ReadonlySet<string> = new Set<ScriptedCode>([
  'SEVERAL_STRONG_LOCKS',
  'WORK_AFTER_STRONG_LOCK',
  'TRIGGER_IN_LONG_TRANSACTION',
  'FOREIGN_KEY_VALIDATED_AT_ONCE',
  'BACKFILL_IN_ONE_TRANSACTION',
  'BACKFILL_WITH_DDL',
]);

/** Those of all UPDATEs and DELETEs of a transaction. */
export const OF_ROWS: ReadonlySet<string> = new Set<ScriptedCode>([
  'BACKFILL_IN_ONE_TRANSACTION',
  'BACKFILL_WITH_DDL',
]);
