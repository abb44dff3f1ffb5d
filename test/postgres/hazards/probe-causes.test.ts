import { beforeAll, describe, expect, test } from 'vitest';
import type { ServerVersion } from '../../../src/local-server/binaries.ts';
import { sqlCommand } from '../../helpers/cli.ts';
import { temporaryDatabase } from '../../helpers/database.ts';
import { rehearse } from '../../helpers/rehearse.ts';
import { useOwnServers } from '../../helpers/servers.ts';

const ITEMS = `CREATE TABLE items (id serial PRIMARY KEY, code text, note text);
  INSERT INTO items (code, note) SELECT 'C' || n, 'note' FROM generate_series(1, 2000) n;
  CREATE UNIQUE INDEX items_code ON items (code);
  CREATE FUNCTION plain(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN lower($1); END';
  CREATE INDEX items_plain ON items (plain(code))`;

const UPPER =
  "CREATE OR REPLACE FUNCTION plain(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN upper($1); END'";

/** Statements, of which the one that is to be named is marked. */
const EXAMPLES: readonly { what: string; code: string; sql: readonly string[]; cause: number }[] = [
  {
    what: 'in a transaction with others of the same table',
    code: 'ACCEPTS_LESS',
    sql: [
      'BEGIN',
      'ALTER TABLE items ADD COLUMN a int',
      'DROP INDEX items_code',
      'ALTER TABLE items ADD COLUMN b int',
      'COMMIT',
    ],
    cause: 2,
  },
  {
    what: 'that changes a function, before and after changes of the table',
    code: 'READS_DIFFER',
    sql: ['ALTER TABLE items ADD COLUMN a int', UPPER, "COMMENT ON TABLE items IS 'changed'"],
    cause: 1,
  },
  {
    what: 'that drops an index for good, not the one that drops it for a moment',
    code: 'ACCEPTS_LESS',
    sql: [
      'DROP INDEX items_code',
      'CREATE UNIQUE INDEX items_code ON items (code)',
      'ALTER TABLE items ADD COLUMN a int',
      'DROP INDEX items_code',
    ],
    cause: 3,
  },
  {
    what: 'that sets a sequence back',
    code: 'SEQUENCE_BEHIND',
    sql: [
      'ALTER TABLE items ADD COLUMN a int',
      'ALTER SEQUENCE items_id_seq RESTART',
      'ALTER TABLE items ADD b int',
    ],
    cause: 1,
  },
];

describe.each<ServerVersion>([14, 18])('on %i, a statement is named as the cause', (version) => {
  beforeAll(() => useOwnServers(version));

  test.each(EXAMPLES)('$what', async ({ code, sql, cause }) => {
    const target = await temporaryDatabase(version, { sql: ITEMS });
    const { report } = await rehearse(target.url, sqlCommand(sql.join(';\n')), {
      args: ['--clone', 'template'],
    });
    await target.drop();
    expect(report.command.exitCode).toBe(0);
    const { statement } = report.hazards.find((hazard) => hazard.code === code) ?? {};
    const named = report.statements.find(({ index }) => index === statement)?.sql;
    expect({ statement, named }, JSON.stringify(report.hazards, null, 1)).toMatchObject({
      named: sql[cause],
    });
  });
});
