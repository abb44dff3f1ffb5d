import { z } from 'zod';
import { bytes } from './measures.ts';

export const dataSection = z.object({
  /** Relations with rows whose row count, size or storage changed; unchanged ones are only counted. */
  tables: z.array(
    z.object({
      relation: z.string(),
      rowsBefore: z.int().nullable(),
      rowsAfter: z.int().nullable(),
      /** The row counts are exact; otherwise they are the planner's estimates. */
      exact: z.boolean(),
      bytesBefore: bytes.nullable(),
      bytesAfter: bytes.nullable(),
      rewritten: z.boolean(),
    }),
  ),
  unchangedTables: z.int(),
  /** Rows that the command wrote, including those of transactions that were rolled back, but not those of TRUNCATE. */
  written: z.array(z.object({ relation: z.string(), inserted: z.int(), updated: z.int(), deleted: z.int() })),
  /** Stored data that was deleted or cut, under the names from before the command. */
  lost: z.array(
    z.object({
      object: z.string(),
      kind: z.enum(['table', 'column']),
      what: z.enum(['dropped', 'narrowed', 'deleted']),
      /** Rows of the table before the command. */
      rows: z.int().nullable(),
      /** Rows that had a value in the dropped or narrowed column, or rows that were deleted. */
      rowsWithValue: z.int().nullable(),
      /**
       * For a narrowed column: values that were cut or rounded, counted by casting each value to the new type and back.
       * null: they were not counted, so values may have changed.
       */
      rowsChanged: z.int().nullable(),
      /** All counts are exact; otherwise they are estimates. */
      exact: z.boolean(),
    }),
  ),
  /**
   * Columns whose values a USING expression replaced, or code that was not read may have, each row compared with the target's by primary
   * key. A column of which all rows were compared and none differs is not listed.
   */
  converted: z
    .array(
      z.object({
        object: z.string(),
        /** Rows of the table before the command; an estimate unless they are all compared. */
        rows: z.int().nullable(),
        /** Rows that were compared; 0: they could not be. */
        compared: z.int(),
        /** Of those, the ones that had a value before. */
        values: z.int(),
        becameNull: z.int(),
        /** Values that are others now; null: the two types have no text in common, or the table has no primary key to compare by. */
        changed: z.int().nullable(),
        /** How many different values there were among those compared, and how many there are of them now. */
        distinctBefore: z.int(),
        distinctAfter: z.int(),
        /** All rows were compared; otherwise a sample of them. */
        exact: z.boolean(),
      }),
    )
    .optional(),
  /** Dropped columns that lose nothing: another column took the name, and each row has the same value there, compared by primary key. */
  copied: z.array(z.string()).optional(),
  walBytes: bytes.nullable(),
  sizeDeltaBytes: bytes.nullable(),
});

export type DataSection = z.infer<typeof dataSection>;
export type ConvertedColumn = NonNullable<DataSection['converted']>[number];
