import { expect, test } from 'vitest';
import { withoutSecrets } from '../../../src/observe/secrets.ts';

test.each([
  ["CREATE ROLE app LOGIN PASSWORD 'hunter2'", "CREATE ROLE app LOGIN PASSWORD '…'"],
  [
    "ALTER USER app ENCRYPTED PASSWORD  E'hun\\'ter2' VALID UNTIL 'x'",
    "ALTER USER app ENCRYPTED PASSWORD  '…' VALID UNTIL 'x'",
  ],
  ['ALTER USER app PASSWORD $x$hunter2$x$', "ALTER USER app PASSWORD '…'"],
  [
    "CREATE SUBSCRIPTION s CONNECTION 'host=a password=hunter2' PUBLICATION p",
    "CREATE SUBSCRIPTION s CONNECTION '…' PUBLICATION p",
  ],
  [
    "CREATE USER MAPPING FOR u SERVER s OPTIONS (user 'a', password 'hunter2')",
    "CREATE USER MAPPING FOR u SERVER s OPTIONS (user 'a', password '…')",
  ],
  [
    "SELECT dblink_connect('host=a password=hunter2 dbname=b')",
    "SELECT dblink_connect('host=a password=… dbname=b')",
  ],
  [
    "SELECT dblink('postgresql://u:hunter2@h/d', 'SELECT 1')",
    "SELECT dblink('postgresql://u:…@h/d', 'SELECT 1')",
  ],
  [
    "DO $$ BEGIN EXECUTE 'CREATE ROLE a PASSWORD ''hunter2'' LOGIN'; END $$",
    "DO $$ BEGIN EXECUTE 'CREATE ROLE a PASSWORD '…' LOGIN'; END $$",
  ],
  [
    "DO 'BEGIN EXECUTE ''CREATE ROLE a PASSWORD ''''hunter2'''' LOGIN''; END'",
    "DO 'BEGIN EXECUTE ''CREATE ROLE a PASSWORD '…' LOGIN''; END'",
  ],
  ["DO $$ BEGIN EXECUTE format('CREATE ROLE a PASSWORD %L', 'hunter2'); END $$", "DO '…'"],
  ["DO $$ BEGIN EXECUTE 'CREATE ROLE a PASSWORD ' || quote_literal('hunter2'); END $$", "DO '…'"],
  ["ALTER ROLE a PASSWORD ''; SELECT 'shown'", "ALTER ROLE a PASSWORD '…'; SELECT 'shown'"],
])('hides the password of %s', (sql, shown) => {
  expect(withoutSecrets(sql)).toBe(shown);
  expect(withoutSecrets(sql)).not.toContain('hunter2');
});

test('leaves other literals and words alone', () => {
  const sql = "INSERT INTO users (password_hash, note) VALUES ('x', 'the password is elsewhere')";
  expect(withoutSecrets(sql)).toBe(sql);
});
