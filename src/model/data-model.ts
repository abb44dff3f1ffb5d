import { z } from 'zod';
import { bytes } from './measures.ts';

/** The values of one column before the command and after it. */
const comparedColumn = z.object({
  /** Qualified name of the column, from before the command. */
  object: z.string(),
  /** Rows of the table before the command; an estimate unless they are all compared. */
  rows: z.int().nullable(),
  /** Rows that were compared; 0: they could not be. */
  compared: z.int(),
  /** The rows among them that had a value before. */
  values: z.int(),
  /** Values that are null now. */
  becameNull: z.int(),
  /** Values that are others now; null: the two types have no text in common, or the table has no primary key to compare by. */
  changed: z.int().nullable(),
  /** Number of different values among those compared, before the command. */
  distinctBefore: z.int(),
  /** Number of different values after the command, among the rows compared. */
  distinctAfter: z.int(),
  /**
   * Number of different values before a change of type that differ in more than case, spaces, hyphens and underscores; counted if different
   * values become the same.
   */
  spellings: z.int().optional(),
  /** Values that were cut to the length of the new type; absent: none. */
  cut: z.int().optional(),
  /** JSON objects, among those that an UPDATE changed, of whose keys none is left; absent: none. */
  keysLost: z.int().optional(),
  /** Triggers that changed the column, which no UPDATE of the command names; absent: one does, or it is not known. */
  triggers: z.array(z.string()).optional(),
  /** All rows were compared; otherwise a sample of them. */
  exact: z.boolean(),
});

/** Rows, sizes and values before and after the command. */
export const dataSection = z.object({
  /** Relations with rows whose row count, size or storage changed; unchanged ones are only counted. */
  tables: z.array(
    z.object({
      /** Qualified name; of a renamed relation, the new one. */
      relation: z.string(),
      /** Rows before the command; 0: it did not exist. null: neither counted nor estimated. */
      rowsBefore: z.int().nullable(),
      /** Rows after the command; 0: it no longer exists. null: neither counted nor estimated. */
      rowsAfter: z.int().nullable(),
      /** The row counts are exact; otherwise they are the planner's estimates. */
      exact: z.boolean(),
      /** Size before the command, with TOAST, without indexes; 0: it did not exist. null: it could not be read. */
      bytesBefore: bytes.nullable(),
      /**
       * Size after the command, with TOAST, without indexes; 0: it no longer exists. null: it could not be read.
       */
      bytesAfter: bytes.nullable(),
      /** The files were replaced: the table was rewritten or truncated. */
      rewritten: z.boolean(),
    }),
  ),
  /** The dump has no rows but those of migration tools, so that nothing is known of losses. Absent: it has some, or is none. */
  withoutRows: z.literal(true).optional(),
  /** Number of relations that are not listed, because nothing changed in them. */
  unchangedTables: z.int(),
  /** Rows that the command wrote and committed, but not those of TRUNCATE. Rows that were rolled back are not among them. */
  written: z.array(
    z.object({
      /** Qualified name of the table. */
      relation: z.string(),
      /** Rows inserted. */
      inserted: z.int(),
      /** Rows updated. */
      updated: z.int(),
      /** Rows deleted. */
      deleted: z.int(),
      /** The numbers are upper bounds: rows that were rolled back may be among them. Absent: they are exact. */
      atMost: z.literal(true).optional(),
    }),
  ),
  /** Stored data that was deleted or cut, under the names from before the command. */
  lost: z.array(
    z.object({
      /** Qualified name of the table or column, from before the command. */
      object: z.string(),
      /** A whole table or rows of it, or one column. */
      kind: z.enum(['table', 'column']),
      /**
       * `dropped`: the object is gone. `narrowed`: the new type cuts or rounds values. `deleted`: rows were
       * deleted.
       */
      what: z.enum(['dropped', 'narrowed', 'deleted']),
      /** Rows of the table before the command. */
      rows: z.int().nullable(),
      /**
       * Rows that had a value in the dropped or narrowed column, or rows that were deleted. null: not known; with 0 `rows`, since the table is
       * empty here only, as in a dump without rows.
       */
      rowsWithValue: z.int().nullable(),
      /**
       * For a narrowed column: values that were cut or rounded, counted by casting each value to the new type and back.
       * null: they were not counted, so values may have changed.
       */
      rowsChanged: z.int().nullable(),
      /** For a narrowed column of a large table: values of some pages that were compared, of which `rowsChanged` is estimated; null there if none was changed. */
      rowsCompared: z.int().optional(),
      /** For a dropped column: a new column that has most of its values, but not all; absent: none was found. */
      copy: z
        .object({
          /** Qualified name of the new column. */
          column: z.string(),
          /** Values that were looked up in it. */
          values: z.int(),
          /** The values among them that it lacks. */
          missing: z.int(),
        })
        .optional(),
      /** All counts are exact; otherwise they are estimates. */
      exact: z.boolean(),
    }),
  ),
  /**
   * Columns whose values a USING expression replaced, or code that was not read may have, each row compared with the target's by primary
   * key. A column of which all rows were compared and none differs is not listed.
   */
  converted: z.array(comparedColumn).optional(),
  /**
   * Columns of tables that the command updated: values became NULL, less than half of ten or more different ones are left, JSON objects lost
   * all their keys, or a trigger changed times or set one value in all rows. The rows of some pages are compared with the target's by primary
   * key. A caveat names the tables whose updated rows are not among them.
   */
  overwritten: z.array(comparedColumn).optional(),
  /** Dropped columns that lose nothing: another column took the name, and each row has the same value there, compared by primary key. */
  copied: z.array(z.string()).optional(),
  /** Dropped tables that lose nothing: another table has the same rows, compared as a whole. */
  copiedTables: z
    .array(
      z.object({
        /** The dropped table. */
        relation: z.string(),
        /** The table that has its rows. */
        to: z.string(),
      }),
    )
    .optional(),
  /**
   * WAL that the command wrote; null: it could not be read. If others write to the same server, theirs is
   * included.
   */
  walBytes: bytes.nullable(),
  /** Growth of the database, negative if it shrank; null: it could not be read. */
  sizeDeltaBytes: bytes.nullable(),
});

export type DataSection = z.infer<typeof dataSection>;
export type ConvertedColumn = NonNullable<DataSection['converted']>[number];
