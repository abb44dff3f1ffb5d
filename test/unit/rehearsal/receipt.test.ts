import { describe, expect, test } from 'vitest';
import {
  commandHash,
  readReceipt,
  receiptObjections,
  schemaReason,
  writeReceipt,
} from '../../../src/rehearsal/receipts/receipt.ts';
import { sampleReport, sampleReports } from '../../helpers/reports.ts';

const report = sampleReports.passed ?? sampleReport();
const IDENTITY = { command: commandHash(report.command.argv), systemIdentifier: '7412345678901234567' };
const HOUR_MS = 3_600_000;

type ReceiptRequest = Parameters<typeof receiptObjections>[1];

const asked = (more: Partial<ReceiptRequest> = {}): ReceiptRequest => ({
  ...IDENTITY,
  database: report.target.database,
  now: new Date(Date.parse(report.run.finishedAt) + HOUR_MS),
  maxAgeMs: 24 * HOUR_MS,
  ...more,
});

describe('a receipt', () => {
  test.each([undefined, 'a key of ours'])('holds what it was written of (key: %s)', async (key) => {
    const receipt = await readReceipt(writeReceipt(report, IDENTITY, key), key);
    expect(receipt.report).toEqual(report);
    expect(receipt.proved).toMatchObject({
      run: report.run.id,
      database: report.target.database,
      verdict: report.verdict,
      schema: { before: report.schema?.before, after: report.schema?.after },
    });
    expect(receipt.seal.kind).toBe(key === undefined ? 'sha256' : 'hmac-sha256');
    expect(receiptObjections(receipt, asked())).toEqual([]);
  });

  test('may be printed otherwise, as long as it says the same', async () => {
    const text = JSON.stringify(JSON.parse(writeReceipt(report, IDENTITY)));
    expect((await readReceipt(text)).report).toEqual(report);
  });

  test.each([
    ['another verdict', '"pass": true', '"pass": false'],
    ['another fingerprint', report.schema?.before ?? '', 'ffffffffffffffff'],
  ])('that was altered is refused: %s', async (_, from, to) => {
    for (const key of [undefined, 'a key of ours']) {
      const text = writeReceipt(report, IDENTITY, key);
      expect(text).toContain(from);
      await expect(readReceipt(text.replace(from, to), key)).rejects.toMatchObject({
        code: 'REFUSED',
        message: expect.stringContaining('altered'),
      });
    }
  });

  test('is refused with another key, without its key, and unsigned where a key is given', async () => {
    const signed = writeReceipt(report, IDENTITY, 'a key of ours');
    await expect(readReceipt(signed, 'another key')).rejects.toThrow('signed with another key');
    await expect(readReceipt(signed)).rejects.toThrow('without --receipt-key');
    await expect(readReceipt(writeReceipt(report, IDENTITY), 'a key of ours')).rejects.toThrow('not signed');
  });

  test.each(['', 'nonsense', '[]', '{}', '{"receipt":2}'])('is not this: %j', async (text) => {
    await expect(readReceipt(text)).rejects.toMatchObject({ code: 'REFUSED' });
  });

  test.each([
    ['that is old', { now: new Date(Date.parse(report.run.finishedAt) + 25 * HOUR_MS) }, /is 1 d 1 h old/],
    ['of the future', { now: new Date(Date.parse(report.run.finishedAt) - HOUR_MS) }, /in the future/],
    ['for another command', { command: commandHash(['drop', 'all']) }, /another command/],
    ['for another database', { database: 'billing' }, /for the database shop, and this is billing/],
    ['for another server', { systemIdentifier: '1' }, /on another server/],
    ['for a server that cannot be told', { systemIdentifier: null }, /on another server/],
  ] satisfies [string, Partial<ReceiptRequest>, RegExp][])(
    '%s is refused for that reason alone',
    async (_, more, reason) => {
      const receipt = await readReceipt(writeReceipt(report, IDENTITY));
      expect(receiptObjections(receipt, asked(more))).toEqual([expect.stringMatching(reason)]);
    },
  );

  test('is for one schema', async () => {
    const receipt = await readReceipt(writeReceipt(report, IDENTITY));
    const none = async () => ({});
    expect(await schemaReason(receipt, report.schema?.before ?? '', none)).toBeUndefined();
    // An older receipt names no objects.
    expect(await schemaReason(receipt, 'ffffffffffffffff', none)).toMatch(/rehearsed: it was c0d4f1a7e2b9/);
  });

  test('names the objects in which the schema differs', async () => {
    const objects = { 'table public.a': '1', 'table public.b': '1', 'table public.c': '1' };
    const receipt = await readReceipt(writeReceipt(report, { ...IDENTITY, objects }));
    const now = async () => ({ 'table public.a': '1', 'table public.b': '2', 'table public.d': '1' });
    expect(await schemaReason(receipt, 'ffffffffffffffff', now)).toBe(
      "the target's schema is not the one that was rehearsed: ~ table public.b, - table public.c, + table public.d",
    );
  });
});
