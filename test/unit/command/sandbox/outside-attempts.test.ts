import { expect, test } from 'vitest';
import { Attempts, mergeAttempts } from '../../../../src/command/sandbox/outside-attempts.ts';
import type { ConnectionSettings } from '../../../../src/postgres/connection/connection-settings.ts';

const SETTINGS: ConnectionSettings = {
  hosts: [
    { host: 'DB.example', port: 5432 },
    { host: '127.0.0.1', port: 5433 },
  ],
  user: 'me',
  database: 'shop',
  sslmode: 'prefer',
  parameters: {},
};

test('connections are counted by place, and a name counts only if nothing connected to it', () => {
  const attempts = new Attempts(SETTINGS);
  attempts.add({ type: 'asked', host: 'api.example', port: null });
  attempts.add({ type: 'connected', host: 'api.example', port: 443 });
  attempts.add({ type: 'connected', host: 'api.example', port: 443 });
  attempts.add({ type: 'asked', host: 'mongo.example', port: null });
  expect(attempts.list()).toEqual([
    { host: 'api.example', port: 443, count: 2, reason: 'not-allowed' },
    { host: 'mongo.example', port: null, count: 1, reason: 'not-allowed' },
  ]);
});

test('the target is recognised by its names, another database by its protocol', () => {
  const attempts = new Attempts(SETTINGS);
  attempts.add({ type: 'asked', host: 'db.example', port: null });
  attempts.add({ type: 'connected', host: 'db.example', port: 5432 });
  attempts.add({ type: 'spoke-postgres', host: 'db.example', port: 5432 });
  attempts.add({ type: 'connected', host: 'localhost', port: 5433 });
  attempts.add({ type: 'connected', host: 'other.example', port: 5432 });
  attempts.add({ type: 'spoke-postgres', host: 'other.example', port: 5432 });
  attempts.addRefusal('relay.example', 7000, 'target');
  expect(attempts.list().map(({ host, reason }) => `${host} ${reason}`)).toEqual([
    'db.example target',
    'localhost target',
    'other.example postgres',
    'relay.example target',
  ]);
});

test('the attempts of several runs are added up', () => {
  const one = { host: 'api.example', port: 443, count: 2, reason: 'not-allowed' } as const;
  expect(mergeAttempts([[one], [one, { ...one, port: 80 }]])).toEqual([
    { ...one, count: 4 },
    { ...one, port: 80 },
  ]);
});
