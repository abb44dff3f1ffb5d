import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type TemporaryDatabase, temporaryDatabase } from '../helpers/database.ts';
import { psqlCommand, rehearse } from '../helpers/rehearse.ts';
import { useOwnServers } from '../helpers/servers.ts';

describe('hazards', () => {
  let target: TemporaryDatabase;
  const migration = psqlCommand('-c', "UPDATE orders SET status = 'confidential' WHERE id > 10");
  const ddl = psqlCommand('-c', 'ALTER TABLE orders ADD COLUMN paid_at timestamptz');

  beforeAll(async () => {
    await useOwnServers(18);
    target = await temporaryDatabase(18, {
      sql: `CREATE TABLE orders (id int PRIMARY KEY, status text NOT NULL);
            INSERT INTO orders SELECT n, 'open' FROM generate_series(1, 3000) AS n; ANALYZE`,
    });
  });

  afterAll(() => target.drop());

  test('that are notices do not keep a command from passing', async () => {
    const { report } = await rehearse(target.url, migration, { args: ['--clone', 'template'] });
    expect(report.hazards.map(({ code }) => code)).toEqual(['BACKFILL_IN_ONE_TRANSACTION']);
    expect(report.verdict.pass).toBe(true);
  });

  test('know a lock_timeout that the session began with', async () => {
    const codes = async (env: NodeJS.ProcessEnv) => {
      const { report } = await rehearse(target.url, ddl, { args: ['--clone', 'template'], env });
      return report.hazards.map(({ code }) => code);
    };
    expect(await codes({})).toEqual(['NO_LOCK_TIMEOUT']);
    expect(await codes({ PGOPTIONS: '-c lock_timeout=2s' })).toEqual([]);
  });

  test('show no literals where these are left out of the report', async () => {
    const { report } = await rehearse(target.url, migration, { args: ['--clone', 'template', '--redact'] });
    expect(report.hazards).toHaveLength(1);
    expect(JSON.stringify(report)).not.toContain('confidential');
  });
});
