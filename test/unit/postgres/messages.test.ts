import { describe, expect, test } from 'vitest';
import {
  encodeMessage,
  errorFields,
  errorResponse,
  movePosition,
  rowsOf,
} from '../../../src/postgres/protocol/messages.ts';
import { ScramClient, ScramServer, ScramVerifier } from '../../../src/postgres/protocol/scram.ts';

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
  test('lets in who knows the secret, and proves that the server does', async () => {
    const client = new ScramClient('the secret, é');
    const server = new ScramServer(new ScramVerifier('the secret, é'));
    const final = server.check(await client.proof(server.challenge(client.first)));
    expect(() => client.verify(final ?? '')).not.toThrow();
    expect(() => client.verify('v=AAAA')).toThrow('prove');
  });

  test('does not let in anybody else', async () => {
    const client = new ScramClient('a guess');
    const server = new ScramServer(new ScramVerifier('the secret'));
    expect(server.check(await client.proof(server.challenge(client.first)))).toBeUndefined();
  });

  test('refuses a server that does not repeat the nonce', async () => {
    await expect(new ScramClient('x').proof('r=other,s=AAAA,i=4096')).rejects.toThrow('no sense');
  });
});
