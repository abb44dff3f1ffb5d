import { expect, test } from 'vitest';
import {
  messageWithoutSecrets,
  statementWithoutSecrets,
} from '../../../src/postgres/sql/statement-secrets.ts';

test.each([
  [
    "SELECT set_config('app.jwt_secret', 'hunter2', false), set_config('app.name', 'shop', false)",
    "SELECT set_config('app.jwt_secret', '…', false), set_config('app.name', 'shop', false)",
  ],
  [
    "SET LOCAL app.api_key TO 'hunter2'; SET app.name = 'shop'",
    "SET LOCAL app.api_key TO '…'; SET app.name = 'shop'",
  ],
  ["ALTER DATABASE shop SET app.auth_token = 'hunter2'", "ALTER DATABASE shop SET app.auth_token = '…'"],
  ["UPDATE users SET password_hash = 'hunter2'", "UPDATE users SET password_hash = '…'"],
  [
    "SELECT set_config('my.password','hunter2',false), set_config('my.password', 'hunter2', false)",
    "SELECT set_config('my.password','…',false), set_config('my.password', '…', false)",
  ],
  [
    "EXECUTE 'SELECT set_config(''my.password'',''hunter2'',false)'",
    "EXECUTE 'SELECT set_config(''my.password'','…',false)'",
  ],
  [
    "INSERT INTO settings VALUES ('smtp.password','hunter2', 7)",
    "INSERT INTO settings VALUES ('smtp.password','…', 7)",
  ],
  ["ALTER ROLE app PASSWORD',hunter2'", "ALTER ROLE app PASSWORD'…'"],
  ["COPY t FROM PROGRAM 'curl -u u:hunter2 https://h/x'", "COPY t FROM PROGRAM 'curl -u u:… https://h/x'"],
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
  [
    "CREATE USER MAPPING FOR u SERVER s OPTIONS (ADD sslpassword 'hunter2', \"password\" 'hunter2')",
    "CREATE USER MAPPING FOR u SERVER s OPTIONS (ADD sslpassword '…', \"password\" '…')",
  ],
  [
    "CREATE SERVER s TYPE 'x' FOREIGN DATA WRAPPER w OPTIONS (host 'h;1', api_key 'hunter2'); SELECT 'x'",
    "CREATE SERVER s TYPE 'x' FOREIGN DATA WRAPPER w OPTIONS (host 'h;1', api_key '…'); SELECT 'x'",
  ],
  [
    "ALTER SERVER s OPTIONS (SET port '5432', SET \"Secret Key\" E'hunter2', DROP c)",
    "ALTER SERVER s OPTIONS (SET port '5432', SET \"Secret Key\" '…', DROP c)",
  ],
  [
    "create user  mapping if not exists for u server s options (user 'a', token $$hunter2$$)",
    "create user  mapping if not exists for u server s options (user 'a', token '…')",
  ],
  [
    "DO $$ BEGIN EXECUTE 'CREATE USER MAPPING FOR u SERVER s OPTIONS (token ''hunter2'')'; END $$",
    "DO $$ BEGIN EXECUTE 'CREATE USER MAPPING FOR u SERVER s OPTIONS (token '…')'; END $$",
  ],
  ["ALTER USER app PASSWORD U&'hunter2'", "ALTER USER app PASSWORD '…'"],
  ["ALTER USER app PASSWORD /* new */ 'hunter2'", "ALTER USER app PASSWORD /* new */ '…'"],
  ["ALTER USER app PASSWORD -- new\n 'hunter2'", "ALTER USER app PASSWORD -- new\n '…'"],
  ["ALTER USER app PASSWORD 'hunt'\n  'hunter2'; SELECT 'x'", "ALTER USER app PASSWORD '…'; SELECT 'x'"],
  ['CREATE ROLE app LOGIN PASSWORD /* new */hunter2', 'CREATE ROLE app LOGIN PASSWORD /* new */…'],
  ['CREATE ROLE app LOGIN PASSWORD hunter2', 'CREATE ROLE app LOGIN PASSWORD …'],
  ['alter user app with password "hunter2"; SELECT 1', 'alter user app with password …; SELECT 1'],
])('hides the password of %s', (sql, shown) => {
  expect(statementWithoutSecrets(sql)).toBe(shown);
  expect(statementWithoutSecrets(sql)).not.toContain('hunter2');
});

test('hides what a syntax error quotes of a password without quotes', () => {
  const message = 'syntax error at or near "hunter2"';
  expect(messageWithoutSecrets(message, 'ALTER ROLE app PASSWORD hunter2')).toBe(
    'syntax error at or near "…"',
  );
  expect(messageWithoutSecrets(message, 'SELECT hunter2 hunter2')).toBe(message);
});

test.each([
  [
    'login failed for postgresql://u:hunter2@h/db password=hunter2',
    'login failed for postgresql://u:…@h/db password=…',
  ],
  ['program "curl -u u:hunter2 https://h" failed', 'program "curl -u u:… https://h" failed'],
])('a message that a function raises has none either: %s', (message, shown) => {
  expect(messageWithoutSecrets(message, 'SELECT f()')).toBe(shown);
});

test.each([
  'ALTER ROLE app PASSWORD NULL',
  'ALTER TABLE users ADD COLUMN password text',
  'CREATE TABLE users (password text); CREATE ROLE app',
  'ALTER ROLE app PASSWORD $1',
])('leaves %s as it is', (sql) => {
  expect(statementWithoutSecrets(sql)).toBe(sql);
});

test('leaves other literals and words alone', () => {
  const sql = "INSERT INTO users (password_hash, note) VALUES ('x', 'the password is elsewhere')";
  expect(statementWithoutSecrets(sql)).toBe(sql);
});
