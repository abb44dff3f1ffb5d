import { beforeAll, describe, expect, test } from 'vitest';
import type { Report } from '../../../src/model/report.ts';
import { temporaryDatabase } from '../../helpers/database.ts';
import { rehearse, scriptCommand } from '../../helpers/rehearse.ts';
import { NEWEST } from '../../helpers/servers.ts';

const ROLE = `DO $$ BEGIN CREATE ROLE filtered_app; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
CREATE FUNCTION unknown(int) RETURNS boolean LANGUAGE plpgsql AS 'DECLARE found boolean; BEGIN EXECUTE ''SELECT ''||$1||'' > 0'' INTO found; RETURN found; END'`;

const documents = (name: string) => `
CREATE TABLE ${name} (id int PRIMARY KEY, tenant int, archived boolean DEFAULT false);
INSERT INTO ${name} SELECT n, n % 10 FROM generate_series(1, 1000) n;
ALTER TABLE ${name} ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON ${name} USING (tenant = current_setting('app.tenant')::int);
GRANT ALL ON ${name} TO filtered_app`;

const AS_TENANT = "SET ROLE filtered_app; SET app.tenant = '7'; ";
const OWNED = `ALTER TABLE # OWNER TO filtered_app; ${AS_TENANT}`;
const FORCED = 'ALTER TABLE # FORCE ROW LEVEL SECURITY; ';
const WRITE = 'UPDATE # SET archived = true';

/** Texts, each sent as one message in a session of its own, with a table of its own in place of #; and the rows that each misses. */
const CASES = {
  'an update of two tenants': [`${AS_TENANT}${WRITE} WHERE tenant IN (6, 7)`, 100],
  'a delete of all': [`${AS_TENANT}DELETE FROM public.#`, 900],
  'a delete that joins': [
    `${AS_TENANT}WITH old AS (SELECT generate_series(1, 100) AS id) DELETE FROM # d USING old WHERE d.id = old.id`,
    90,
  ],
  'rows that the role sees': [`${AS_TENANT}${WRITE} WHERE tenant = 7`, null],
  'a role that row security does not hold': [WRITE, null],
  'the owner': [OWNED + WRITE, null],
  'an owner on whom it is forced': [FORCED + OWNED + WRITE, 900],
  'an owner on whom it is forced no longer': [
    `${FORCED}${OWNED}BEGIN; ALTER TABLE # NO FORCE ROW LEVEL SECURITY; ${WRITE}; ${FORCED}COMMIT`,
    null,
  ],
  'a condition that is not known to be harmless, which is not run once more': [
    `${AS_TENANT}${WRITE} WHERE unknown(tenant)`,
    null,
  ],
} as const;

const NAMES = Object.keys(CASES) as (keyof typeof CASES)[];
const tableOf = (name: keyof typeof CASES) => `documents_${NAMES.indexOf(name)}`;

describe.each(NEWEST)('a write that row security keeps from rows, on PostgreSQL %i', (version) => {
  let report: Report;

  beforeAll(async () => {
    const sql = [ROLE, ...NAMES.map((name) => documents(tableOf(name)))].join(';');
    const { url } = await temporaryDatabase(version, { sql });
    const texts = NAMES.map((name) => CASES[name][0].replaceAll('#', tableOf(name)));
    const rehearsal = await rehearse(
      url,
      scriptCommand(
        `for (const sql of args) {
           const client = await connect();
           await client.query(sql);
           await client.end();
         }`,
        ...texts,
      ),
    );
    report = rehearsal.report;
    expect(report.command.exitCode, rehearsal.stderr).toBe(0);
  });

  test.each(NAMES)('is told of if it misses any: %s', (name) => {
    const [, missed] = CASES[name];
    const relation = `public.${tableOf(name)}`;
    expect(report.statements.some(({ sql }) => sql.includes(tableOf(name)))).toBe(true);
    const found = report.hazards.filter(
      (hazard) => hazard.code === 'ROW_SECURITY_FILTERS_WRITE' && hazard.relation === relation,
    );
    expect(found).toMatchObject(
      missed === null
        ? []
        : [{ severity: 'warning', message: expect.stringContaining(`keeps ${missed} rows`) }],
    );
  });

  test('is told of nothing else', () => {
    const found = report.hazards.filter(({ code }) => code === 'ROW_SECURITY_FILTERS_WRITE');
    expect(found).toHaveLength(NAMES.filter((name) => CASES[name][1] !== null).length);
  });
});
