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
  /** Dropped columns that lose nothing: another column took the name, and each row has the same value there, compared by primary key. */
  copied: z.array(z.string()).optional(),
  walBytes: bytes.nullable(),
  sizeDeltaBytes: bytes.nullable(),
});

export type DataSection = z.infer<typeof dataSection>;
