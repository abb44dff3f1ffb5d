import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { auditTo } from '../../../src/cli/audit-file.ts';
import { temporaryFolder } from '../../helpers/cli.ts';

test.each([
  "CREATE ROLE app PASSWORD 'hunter2'",
  "ALTER ROLE app WITH ENCRYPTED PASSWORD 'hunter2'",
  "SELECT set_config('app.jwt_secret', 'hunter2', false)",
  "SELECT dblink_connect('host=a password=hunter2')",
  "CREATE SUBSCRIPTION s CONNECTION 'postgresql://u:hunter2@h/d' PUBLICATION p",
])('an audit has no password of %s', (sql) => {
  const file = path.join(temporaryFolder(), 'audit.jsonl');
  auditTo(file)({
    at: '2026-11-23T00:00:00Z',
    database: 'shop',
    purpose: 'after-clone',
    sql,
    values: [sql, 7],
  });
  const written = readFileSync(file, 'utf8');
  expect(written).not.toContain('hunter2');
  expect(JSON.parse(written)).toMatchObject({ purpose: 'after-clone', values: [expect.any(String), 7] });
});
