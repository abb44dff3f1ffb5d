import { expect, test } from 'vitest';
import { variationsIn } from '../../../src/observe/moment-values.ts';
import { parseText } from '../../../src/postgres/sql/parse.ts';

const AT = Date.parse('2026-11-22T18:51:08.400Z');

async function found(sql: string) {
  const [statement] = (await parseText(Buffer.from(sql))) ?? [];
  return variationsIn(sql, statement?.node ?? {}, AT).map(({ as }) => as);
}

const SECONDS = Math.floor(AT / 1_000);
const UUID_7 = `${(AT - 500)
  .toString(16)
  .padStart(12, '0')
  .replace(/^(.{8})/, '$1-')}-7abc-8abc-0123456789ab`;

test.each([
  `CREATE TABLE x_${AT - 1_000} ()`,
  `CREATE INDEX i_${SECONDS} ON t (a)`,
  'CREATE TABLE backup_20261122185107 ()',
  'CREATE TABLE backup_2026_11_22_195107 ()',
  'CREATE TABLE backup_202611221851 ()',
  'CREATE TABLE backup_20261122_1950 ()',
  'ALTER TABLE t RENAME TO old_20261122_185107',
  "ALTER TABLE t ADD CHECK (c > '2026-11-22 18:51:07')",
  "CREATE TABLE p PARTITION OF t FOR VALUES IN ('2026-11-22T18:51:07.123456+00:00')",
  `COMMENT ON TABLE x_${AT - 1_000} IS 'a'`,
  `CREATE TABLE "x_${UUID_7}" ()`,
])('%s contains the time of the run', async (sql) => {
  expect(await found(sql)).toEqual(['time']);
});

test('a random UUID counts in a name', async () => {
  expect(await found('CREATE TABLE import_0b9a3c52_8a4e_4f0d_9d0c_6e1f2a3b4c5d ()')).toEqual(['UUID']);
});

test.each(['CREATE TABLE t_7fc26f4f2010 ()', 'CREATE TABLE "import-139633263414144" ()'])(
  '%s has an address of its process in a name',
  async (sql) => {
    expect(await found(sql)).toEqual(['address']);
  },
);

test.each([
  "ALTER TABLE t ADD c timestamptz DEFAULT '2026-11-22T18:51:08'",
  "COMMENT ON TABLE t IS 'made 2026-11-22 18:51:08'",
  "CALL p('0b9a3c52-8a4e-4f0d-9d0c-6e1f2a3b4c5d')",
  "INSERT INTO t VALUES ('2026-11-22T18:51:08')",
  'CREATE TABLE events_2026_11 ()',
  'CREATE TABLE events_20261122 ()',
  'CREATE TABLE import_20260301090000 ()',
  'CREATE TABLE import_202611221735 ()',
  'CREATE TABLE t_4fc26f4f2010 ()',
  "ALTER TABLE t ADD CHECK (c > '2026-11-22')",
  "ALTER TABLE t ADD CHECK (c > '2026-11-22 00:00:00')",
  `CREATE TABLE x_${SECONDS - 3_600} ()`,
  'CREATE INDEX app_model_field_4f3a2b1c_idx ON t (a)',
  'ALTER TABLE t ADD CONSTRAINT "UK_6dotkott2kjsp8vw4d0m25fb7" UNIQUE (a)',
  "CREATE POLICY p ON t USING (tenant = '0b9a3c52-8a4e-4f0d-9d0c-6e1f2a3b4c5d')",
])('%s may be the same in every run', async (sql) => {
  expect(await found(sql)).toEqual([]);
});
