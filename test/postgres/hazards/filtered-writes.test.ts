import { describe, expect, test } from 'vitest';
import { sqlCommand } from '../../helpers/cli.ts';
import { temporaryDatabase } from '../../helpers/database.ts';
import { rehearse } from '../../helpers/rehearse.ts';
import { OLDEST_AND_NEWEST } from '../../helpers/servers.ts';

const SETUP = `
CREATE TABLE documents (id int PRIMARY KEY, tenant int, archived boolean DEFAULT false);
INSERT INTO documents SELECT n, n % 10 FROM generate_series(1, 1000) n;
ALTER TABLE documents ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON documents USING (tenant = current_setting('app.tenant')::int);
DO $$ BEGIN CREATE ROLE filtered_app; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
GRANT ALL ON documents TO filtered_app;
CREATE FUNCTION unknown(int) RETURNS boolean LANGUAGE plpgsql AS 'DECLARE found boolean; BEGIN EXECUTE ''SELECT ''||$1||'' > 0'' INTO found; RETURN found; END'`;

const AS_TENANT = "SET ROLE filtered_app; SET app.tenant = '7'; ";

describe.each(OLDEST_AND_NEWEST)('a write that row security keeps from rows, on PostgreSQL %i', (version) => {
  async function found(sql: string) {
    const { url } = await temporaryDatabase(version, { sql: SETUP });
    const { report, stderr } = await rehearse(url, sqlCommand(sql));
    expect(report.command.exitCode, stderr).toBe(0);
    return report.hazards.filter(({ code }) => code === 'ROW_SECURITY_FILTERS_WRITE');
  }

  test.each([
    ['UPDATE documents SET archived = true WHERE tenant IN (6, 7)', 100],
    ['DELETE FROM public.documents', 900],
    [
      'WITH old AS (SELECT generate_series(1, 100) AS id) DELETE FROM documents d USING old WHERE d.id = old.id',
      90,
    ],
  ])('%s misses %i', async (sql, missed) => {
    expect(await found(AS_TENANT + sql)).toMatchObject([
      {
        relation: 'public.documents',
        severity: 'warning',
        message: expect.stringContaining(`keeps ${missed} rows`),
      },
    ]);
  });

  test('is not told of rows that the role sees, nor of a role that row security does not hold', async () => {
    expect(await found(`${AS_TENANT}UPDATE documents SET archived = true WHERE tenant = 7`)).toEqual([]);
    expect(await found('UPDATE documents SET archived = true')).toEqual([]);
  });

  test('of the owner is told only if row security is forced on the owner', async () => {
    const owned = `ALTER TABLE documents OWNER TO filtered_app; ${AS_TENANT}`;
    const write = 'UPDATE documents SET archived = true';
    expect(await found(owned + write)).toEqual([]);
    expect(await found(`ALTER TABLE documents FORCE ROW LEVEL SECURITY; ${owned}${write}`)).toMatchObject([
      { severity: 'warning', message: expect.stringContaining('keeps 900 rows') },
    ]);
    const lifted = `BEGIN; ALTER TABLE documents NO FORCE ROW LEVEL SECURITY; ${write}; ALTER TABLE documents FORCE ROW LEVEL SECURITY; COMMIT`;
    expect(await found(`ALTER TABLE documents FORCE ROW LEVEL SECURITY; ${owned}${lifted}`)).toEqual([]);
  });

  test('runs no condition once more that is not known to be harmless', async () => {
    expect(await found(`${AS_TENANT}UPDATE documents SET archived = true WHERE unknown(tenant)`)).toEqual([]);
  });
});
