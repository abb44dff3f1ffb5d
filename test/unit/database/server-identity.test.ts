import { describe, expect, test } from 'vitest';
import {
  changedBetween,
  isAnotherSystem,
  movedBetween,
  onPrimary,
} from '../../../src/database/server-identity.ts';
import { parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../../src/postgres/connection/environment.ts';

const server = { systemIdentifier: '7', timeline: 1, startedAt: '100.5' };
const hidden = { ...server, systemIdentifier: null };

describe('a server', () => {
  test('is the same after a restart, where its identifier can be read', () => {
    const restarted = { ...server, startedAt: '200' };
    expect(changedBetween(server, restarted)).toBeUndefined();
    expect(isAnotherSystem(server, restarted)).toBe(false);
  });

  test('may be another one after a restart, where it cannot', () => {
    const restarted = { ...hidden, startedAt: '200' };
    expect(movedBetween(hidden, restarted)).toBeUndefined();
    expect(changedBetween(hidden, restarted)).toMatch(/restarted in the meantime, or another one answers/);
    expect(changedBetween(hidden, hidden)).toBeUndefined();
    expect(isAnotherSystem(hidden, restarted)).toBe(false);
  });

  test.each([
    [{ ...server, timeline: 2 }, /timeline 1 became 2/],
    [{ ...server, timeline: null }, /is a standby now/],
  ])('that took over, or gave up, has moved and is the same system: %o', (after, words) => {
    expect(changedBetween(server, after)).toMatch(words);
    expect(isAnotherSystem(server, after)).toBe(false);
  });

  test('of another system is that, whatever its timeline', () => {
    const other = { ...server, systemIdentifier: '8' };
    expect(changedBetween(server, other)).toMatch(/system identifier 8/);
    expect(isAnotherSystem(server, other)).toBe(true);
  });
});

test('the primary is looked for among all hosts, whatever the URL asks for', () => {
  const url = 'postgresql://me@first,second/app?target_session_attrs=any';
  const { hosts, parameters } = onPrimary(parseSettings(url, readEnvironment({}, '/')));
  expect(hosts.map(({ host }) => host)).toEqual(['first', 'second']);
  expect(parameters.target_session_attrs).toBe('read-write');
});
