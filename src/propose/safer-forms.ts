import { alterTable } from './alter-table.ts';
import { inBatches } from './batches.ts';
import {
  buildConcurrently,
  dropConcurrently,
  moveIndex,
  refreshConcurrently,
  reindexConcurrently,
  repackConcurrently,
} from './concurrent-forms.ts';
import type { ScriptedCode } from './scripted-hazards.ts';
import type { Rewriting, Subject } from './subject.ts';

/** Writes what takes the place of a statement in which a hazard was found. The other hazards need no other form. */
const WRITERS: Readonly<Partial<Record<ScriptedCode, (subject: Subject) => Rewriting>>> = {
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
  BACKFILL_IN_ONE_TRANSACTION: inBatches,
  BACKFILL_WITH_DDL: inBatches,
  TYPE_CHANGE_REWRITES: alterTable,
  VACUUM_FULL: repackConcurrently,
  CLUSTER: repackConcurrently,
  REPACK: repackConcurrently,
};

/** Tells if a hazard is taken away by another form of its statement. */
export function hasForm(code: string): boolean {
  return Object.hasOwn(WRITERS, code);
}

/** Returns undefined for a statement in which no hazard was found that another form takes away. */
export function rewriteStatement(subject: Subject): Rewriting | undefined {
  const code = [...subject.codes].find(hasForm) as ScriptedCode | undefined;
  return code && WRITERS[code]?.(subject);
}
