import { continueSession, finalizeSession, startSession } from 'pg/lib/crypto/sasl.js';
import { describe, expect, test } from 'vitest';
import {
  encodeMessage,
  errorFields,
  errorResponse,
  movePosition,
  rowsOf,
} from '../../../src/postgres/protocol/messages.ts';
import { SCRAM, ScramServer, ScramVerifier } from '../../../src/postgres/protocol/scram.ts';

describe('an error', () => {
  const error = encodeMessage('E'.charCodeAt(0), 'SERROR\0C42703\0Mno column "é"\0P8\0Rwhere\0\0');

  test('keeps its other fields when its position is moved', () => {
    const moved = errorFields(movePosition(error, 100));
    expect(moved).toEqual(new Map([...errorFields(error), ['P', '108']]));
  });

  test('without a position stays as it is', () => {
    const plain = errorResponse({ sqlstate: '42501', message: 'no', hint: 'ask' });
    expect(movePosition(plain, 100)).toBe(plain);
    expect(Object.fromEntries(errorFields(plain))).toMatchObject({
      S: 'ERROR',
      C: '42501',
      M: 'no',
      H: 'ask',
    });
  });
});

test.each([
  ['INSERT 0 5', 5],
  ['SELECT 3', 3],
  ['COPY 7', 7],
  ['MERGE 1', 1],
  ['CREATE TABLE', null],
  ['ALTER TABLE', null],
])('the tag %s tells of %s rows', (tag, rows) => {
  expect(rowsOf(tag)).toBe(rows);
});

describe('SCRAM', () => {
  /** @returns pg's session, and the server's last message. */
  async function logIn(secret: string, password: string) {
    const server = new ScramServer(new ScramVerifier(secret));
    const session = startSession([SCRAM], undefined, 0);
    await continueSession(session, password, server.challenge(session.response));
    return { session, final: server.check(session.response) };
  }

  test.each([
    ['the secret, é', 'the secret, é'],
    ['soft\u00adhyphen and\u00a0space', 'softhyphen and space'],
    ['ﬁ', 'fi'],
  ])('lets in who knows the secret %j as %j, and proves that the server does', async (secret, password) => {
    const { session, final } = await logIn(secret, password);
    expect(() => finalizeSession(session, final ?? '')).not.toThrow();
    expect(() => finalizeSession(session, 'v=AAAA')).toThrow('signature');
  });

  test('does not let in anybody else', async () => {
    const { final } = await logIn('the secret', 'a guess');
    expect(final).toBeUndefined();
  });
});
