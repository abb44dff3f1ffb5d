import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { rehearse } from '../../src/index.ts';
import { plainEnvironment } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { temporaryDatabase } from '../helpers/database.ts';
import { psqlCommand } from '../helpers/rehearse.ts';
import { OLDEST_AND_NEWEST, useOwnServers } from '../helpers/servers.ts';
import { inThisShare } from '../helpers/share.ts';

const folder = mkdtempSync(path.join(tmpdir(), 'safemigrate-retype-'));
afterAll(() => rmSync(folder, { recursive: true }));

const SETUP = `CREATE TABLE "Orders" (id bigint PRIMARY KEY, total int NOT NULL DEFAULT 0 CHECK (total >= 0), note text);
  INSERT INTO "Orders" SELECT n, n, 'note' FROM generate_series(1, 12000) AS n;
  CREATE INDEX by_total ON "Orders" (total, id) INCLUDE (note) WHERE total > 10;
  CREATE INDEX "Halves" ON "Orders" ((total / 2));
  ANALYZE`;
const ALTER = `ALTER TABLE "Orders" ALTER COLUMN total SET DATA TYPE numeric(12, 2) USING "Orders".total * 1.5`;

describe.each(inThisShare(OLDEST_AND_NEWEST))('on PostgreSQL %i', (version) => {
  beforeAll(() => useOwnServers(version));

  const propose = async (setup: string, sql: string, name: string, proposeAll: boolean) => {
    const { url } = await temporaryDatabase(version, { sql: setup });
    const file = path.join(folder, `${version}-${name}.sql`);
    const env = { ...plainEnvironment(), DATABASE_URL: url };
    const options = {
      command: psqlCommand('-c', sql),
      env,
      clone: { method: 'template' },
      propose: file,
      proposeAll,
    } as const;
    return { url, env, file, report: await rehearse(options) };
  };

  test('a new column takes the place of one whose type changes, with what belongs to it', async () => {
    const { url, env, file, report } = await propose(SETUP, ALTER, 'all', true);
    expect(report.proposal?.reasons).toEqual([]);
    expect(report.proposal).toMatchObject({
      outcome: 'proved',
      left: [],
      changes: [{ codes: ['TYPE_CHANGE_REWRITES'] }],
      tolerated: [],
    });
    const safer = await rehearse({ command: psqlCommand('-f', file), env, clone: { method: 'template' } });
    expect(safer.schema?.after, readFileSync(file, 'utf8')).toBe(report.schema?.after);
    expect(safer.hazards.map(({ code }) => code)).not.toContain('TYPE_CHANGE_REWRITES');
    await withClient(url, async (client) => {
      for (const { sql } of report.proposal?.statements ?? []) {
        // It sets up our own session.
        if (sql.includes('$1')) continue;
        await client.query(sql);
        if (!sql.includes('safemigrate_low')) continue;
        // What the application writes meanwhile is carried over.
        await client.query(
          'INSERT INTO "Orders" (id, total) VALUES (20000, 7); UPDATE "Orders" SET total = 99 WHERE id = 1',
        );
      }
      const { rows } = await client.query('SELECT total FROM "Orders" WHERE id IN (1, 2, 20000) ORDER BY id');
      expect(rows.map(({ total }: { total: string }) => total)).toEqual(['148.50', '3.00', '10.50']);
    });
  });

  test('it stays as it is if it is not asked for', async () => {
    const { file, report } = await propose(SETUP, ALTER, 'not-asked', false);
    expect(report.proposal).toMatchObject({ outcome: 'none', changes: [] });
    expect(existsSync(file)).toBe(false);
  });

  test.each([
    ['its key', 'ALTER TABLE "Orders" ALTER id TYPE numeric', '', /constraint/],
    [
      'a column with a comment',
      ALTER.replace('total SET', 'note SET').replace(/TYPE.*/, 'TYPE varchar(9)'),
      'COMMENT ON COLUMN "Orders".note IS $$a$$',
      /a comment/,
    ],
  ])('%s is left, with the reason', async (_what, sql, more, reason) => {
    const { report } = await propose(`${SETUP}; ${more}`, sql, 'left', true);
    expect(report.proposal).toMatchObject({ outcome: 'none', changes: [] });
    expect(report.proposal?.left.map(({ words }) => words).join()).toMatch(reason);
  });
});
