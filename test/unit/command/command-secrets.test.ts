import { expect, test } from 'vitest';
import { maskPasswords } from '../../../src/command/command-secrets.ts';

test.each([
  ['PGPASSWORD="$DB_PASSWORD" psql', 'PGPASSWORD="$DB_PASSWORD" psql'],
  ['PGPASSWORD="$ecret" psql', 'PGPASSWORD=*** psql'],
  ['PGPASSWORD=$ECRET psql', 'PGPASSWORD=*** psql'],
  ["PGPASSWORD='$ECRET' psql", 'PGPASSWORD=*** psql'],
  ['PGPASSWORD="$DB_PASSWORD and more" psql', 'PGPASSWORD=*** psql'],
])('%s is shown as %s', (text, shown) => {
  expect(maskPasswords(text)).toBe(shown);
});
