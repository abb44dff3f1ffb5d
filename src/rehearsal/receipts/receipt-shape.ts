import { z } from 'zod';
import { report } from '../../model/report.ts';

/** Proof of a rehearsal, for an apply that comes later and elsewhere. Times are ISO 8601. */
const proved = z.object({
  run: z.string(),
  finishedAt: z.iso.datetime({ offset: true }),
  tool: z.string(),
  /** Hash of the command's words, without passwords. */
  command: z.string(),
  serverVersion: z.string(),
  database: z.string(),
  /** null where the role could not read it. */
  systemIdentifier: z.string().nullable(),
  /** Content fingerprints; null where the schema could not be read. */
  schema: z
    .object({
      before: z.string(),
      after: z.string(),
      /** Hashes of the objects before, by kind and name; receipts of earlier versions have none. */
      objects: z.record(z.string(), z.string()).optional(),
    })
    .nullable(),
  verdict: z.object({ pass: z.boolean(), reasons: z.array(z.string()) }),
});

/** A file that stands for a rehearsal. */
export const receiptShape = z.object({
  receipt: z.literal(1),
  proved,
  /** The rehearsal itself, so that the report of the apply tells of both. */
  report,
  seal: z.object({ kind: z.enum(['hmac-sha256', 'sha256']), value: z.string() }),
});
