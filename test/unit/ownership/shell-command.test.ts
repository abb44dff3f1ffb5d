import { expect, test } from 'vitest';
import { withoutPasswords } from '../../../src/ownership/shell-command.ts';

test.each([
  'psql: error: postgresql://u:hunter2@h/d',
  'PGPASSWORD=hunter2 psql',
  'connection failed: host=a password=hunter2 dbname=b',
  '{"password": "hunter2"}',
  'API_TOKEN=hunter2',
])('the output of a clone script is shown without its password: %s', (text) => {
  expect(withoutPasswords(text)).not.toContain('hunter2');
});

test('the rest of it stays', () => {
  const text = 'FATAL: password authentication failed for user "app"';
  expect(withoutPasswords(text)).toBe(text);
});
