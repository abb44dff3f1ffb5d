import { expect, test } from 'vitest';
import { ProtocolError } from '../../../src/postgres/protocol/frames.ts';
import { CLIENT } from '../../../src/postgres/protocol/messages.ts';
import { LargeText } from '../../../src/proxy/large-text.ts';

const HEAD_BYTES = 261;

/** What the gate got of a message, which is cut behind its head and at one more place. */
function readOf(type: number, payload: string, cutAt = HEAD_BYTES, refuses = ''): string {
  const bytes = Buffer.concat([Buffer.from([type, 0x27, 0x27, 0x27, 0x27]), Buffer.from(payload)]);
  let read = '';
  const take = (end: string) => (part: Buffer) => {
    read += part.toString() + end;
    return refuses !== '' && read.includes(refuses) ? { sqlstate: '42501', message: 'refused' } : 'run';
  };
  const head = {
    kind: 'head',
    type,
    length: bytes.length - 1,
    bytes: bytes.subarray(0, HEAD_BYTES),
  } as const;
  const large = new LargeText({ push: take(''), end: take('|') }, head);
  large.take(bytes.subarray(HEAD_BYTES, cutAt));
  large.take(bytes.subarray(cutAt));
  return read;
}

const TEXT = `SELECT ${'x'.repeat(1000)}`;

test('the gate reads the text of a Query, and nothing else', () => {
  expect(readOf(CLIENT.query, `${TEXT}\0`)).toBe(`${TEXT}|`);
  expect(readOf(CLIENT.query, `${TEXT}\0`, 500)).toBe(`${TEXT}|`);
});

test('it reads that of a Parse, without the name and the types around it', () => {
  expect(readOf(CLIENT.parse, `it's\0${TEXT}\0 'types`)).toBe(`${TEXT}|`);
  expect(() => readOf(CLIENT.parse, `${'n'.repeat(300)}\0${TEXT}\0`)).toThrow(ProtocolError);
});

test('a text that it refuses goes no further', () => {
  expect(() => readOf(CLIENT.query, `${TEXT} CREATE ROLE r\0`, 600, 'CREATE ROLE')).toThrow(ProtocolError);
});
