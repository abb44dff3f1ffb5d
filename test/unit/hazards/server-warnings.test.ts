import { expect, test } from 'vitest';
import { findHazards } from '../../../src/hazards/catalogue.ts';
import { facts, statement } from '../../helpers/facts.ts';

const NO_BLOCK = { sqlstate: '25P01', message: 'SET LOCAL can only be used in transaction blocks' };
const NO_TRANSACTION = { sqlstate: '25P01', message: 'there is no transaction in progress' };
const NOT_REVOKED = { sqlstate: '01006', message: 'no privileges could be revoked for "orders"' };
const RAISED = { sqlstate: '01000', message: 'half of it' };
const OTHER = { sqlstate: '55000', message: '"wal_level" is insufficient to publish logical changes' };

test.each([
  ['SET', [NO_BLOCK], ['warning']],
  ['REVOKE', [NOT_REVOKED], ['warning']],
  ['COMMIT', [NO_TRANSACTION], ['notice']],
  ['DO', [RAISED, RAISED], ['notice']],
  ['DO', [RAISED, NO_BLOCK], ['warning']],
  ['CREATE PUBLICATION', [OTHER], []],
  ['SET', [], []],
])('%s with the warnings %j is told as %j', (tag, warnings, severities) => {
  const found = findHazards(facts({ statements: [statement(1, { tag, warnings })] }));
  expect(found.filter(({ code }) => code === 'SERVER_WARNING').map(({ severity }) => severity)).toEqual(
    severities,
  );
});

test('each message of a loop is told once', () => {
  const found = findHazards(facts({ statements: [statement(1, { tag: 'DO', warnings: [RAISED, RAISED] })] }));
  expect(found.map(({ message }) => message)).toEqual(['the server warns: half of it']);
});
