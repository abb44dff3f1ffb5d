import { expect, test } from 'vitest';
import { nameAnswer, readNameQuestion } from '../../../../src/command/sandbox/name-server.ts';

const A = 1;
const AAAA = 28;

function query(
  name: string,
  type: number,
  { flags = 0x0100, further = Buffer.alloc(0), questions = 1 } = {},
) {
  const header = Buffer.alloc(12);
  header.writeUInt16BE(0xbeef, 0);
  header.writeUInt16BE(flags, 2);
  header.writeUInt16BE(questions, 4);
  header.writeUInt16BE(further.length > 0 ? 1 : 0, 10);
  const labels = name
    .split('.')
    .map((label) => Buffer.concat([Buffer.from([label.length]), Buffer.from(label)]));
  return Buffer.concat([header, ...labels, Buffer.from([0, 0, type, 0, 1]), further]);
}

/** EDNS, as glibc with `options edns0` and most others send it. */
const EDNS = Buffer.from([0, 0, 41, 16, 0, 0, 0, 0, 0, 0, 0]);

test('a question is read and its name is in small letters', () => {
  const found = readNameQuestion(query('API.Doppler.com', A, { further: EDNS }));
  expect(found).toMatchObject({ name: 'api.doppler.com', type: A, id: 0xbeef, recursionDesired: true });
});

test('an answer repeats id and question, and holds the address', () => {
  const message = query('aPi.example', A, { further: EDNS });
  const question = readNameQuestion(message);
  if (!question) throw new Error('no question');
  const answer = nameAnswer(question, '127.66.1.9');
  const end = message.length - EDNS.length;
  expect(answer.subarray(0, 12).toString('hex')).toBe('beef81800001000100000000');
  expect(answer.subarray(12, end)).toEqual(message.subarray(12, end));
  expect(answer.subarray(end).toString('hex')).toBe('c00c0001000100000000' + '0004' + '7f420109');
});

test('a name without such a record, and no such name', () => {
  const question = readNameQuestion(query('a.example', AAAA));
  if (!question) throw new Error('no question');
  expect(nameAnswer(question, '127.66.1.9').readUInt32BE(4)).toBe(0x0001_0000);
  expect(nameAnswer(question, '127.66.1.9').readUInt16BE(2)).toBe(0x8180);
  expect(nameAnswer(question, null).readUInt16BE(2)).toBe(0x8180);
  expect(nameAnswer(question, undefined).readUInt16BE(2)).toBe(0x8183);
});

test('what is no question is left alone, wherever it is cut', () => {
  const whole = query('api.example', A);
  for (let length = 0; length < whole.length; length++)
    expect(readNameQuestion(whole.subarray(0, length)), String(length)).toBeUndefined();
  expect(readNameQuestion(query('a.example', A, { flags: 0x8180 }))).toBeUndefined();
  expect(readNameQuestion(query('a.example', A, { flags: 0x2800 }))).toBeUndefined();
  expect(readNameQuestion(query('a.example', A, { questions: 2 }))).toBeUndefined();
  const compressed = Buffer.concat([whole.subarray(0, 12), Buffer.from([0xc0, 12, 0, 1, 0, 1, 0])]);
  expect(readNameQuestion(compressed)).toBeUndefined();
});
