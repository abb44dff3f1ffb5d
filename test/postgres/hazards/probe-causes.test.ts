import { beforeAll, describe, expect, test } from 'vitest';
import type { ServerVersion } from '../../../src/local-server/binaries.ts';
import type { Report } from '../../../src/model/report.ts';
import { temporaryDatabase } from '../../helpers/database.ts';
import { rehearse, scriptCommand } from '../../helpers/rehearse.ts';
import { useOwnServers } from '../../helpers/servers.ts';

const ITEMS = `CREATE SCHEMA #; SET search_path = #; CREATE TABLE items (id serial PRIMARY KEY, code text, note text);
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
  let report: Report;

  /** One rehearsal of all: each in a session and a schema of its own. */
  beforeAll(async () => {
    await useOwnServers(version);
    const sql = EXAMPLES.map((_, index) => ITEMS.replaceAll('#', `s${index}`)).join(';');
    const target = await temporaryDatabase(version, { sql });
    const command = scriptCommand(
      `for (const [index, sql] of args.entries()) {
         const client = await connect();
         await client.query('SET search_path = s' + index);
         await client.query(sql);
         await client.end();
       }`,
      ...EXAMPLES.map((example) => example.sql.join(';\n')),
    );
    ({ report } = await rehearse(target.url, command, { args: ['--clone', 'template'] }));
    await target.drop();
    expect(report.command.exitCode).toBe(0);
  });

  test.each(EXAMPLES.map((example, index) => ({ ...example, index })))(
    '$what',
    ({ code, sql, cause, index }) => {
      // Ours are between those that choose this schema and the next one.
      const first = report.statements.findIndex((each) => each.sql.endsWith(`search_path = s${index}`)) + 1;
      const own = report.statements.slice(first, first + sql.length);
      expect(own.map((each) => each.sql)).toEqual(sql);
      const indexes = own.map((each) => each.index);
      const told = report.hazards.filter(
        (hazard) => hazard.code === code && hazard.relation?.startsWith(`s${index}.`),
      );
      expect(told[0]?.statement, JSON.stringify(report.hazards, null, 1)).toBe(indexes[cause]);
    },
  );
});
