import { createHash, createHmac, timingSafeEqual } from 'node:crypto';

/** Proves that a file is as it was written: by a signature, or without a key by a checksum that anybody can make. */
export function sealOf(content: object, key: string | undefined) {
  const text = JSON.stringify(content);
  return key === undefined
    ? { kind: 'sha256' as const, value: createHash('sha256').update(text).digest('hex') }
    : { kind: 'hmac-sha256' as const, value: createHmac('sha256', key).update(text).digest('hex') };
}

/** Returns why a seal does not prove the content, as the end of a sentence; undefined if it does. */
export function sealObjection(
  content: object,
  { kind, value }: ReturnType<typeof sealOf>,
  key: string | undefined,
): string | undefined {
  if (kind === 'sha256' && key !== undefined)
    return 'it is not signed, and --receipt-key asks for a signature';
  if (kind === 'hmac-sha256' && key === undefined)
    return 'it is signed, and cannot be proved without --receipt-key';
  if (equal(value, sealOf(content, key).value)) return undefined;
  return kind === 'sha256'
    ? 'it was altered since it was written'
    : 'it was altered since it was written, or signed with another key';
}

function equal(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)];
  return a.length === b.length && timingSafeEqual(a, b);
}
