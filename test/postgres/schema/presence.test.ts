import { describe, expect, test } from 'vitest';
import { questionsTo } from '../../../src/schema/extraction.ts';
import { IDENTITY_BY_KIND } from '../../../src/schema/identity.ts';
import { withoutAnswer } from '../../../src/schema/presence.ts';
import { UNMODELED } from '../../../src/schema/unmodeled.ts';
import type { Session } from '../../../src/target/session.ts';
import { DEPENDING, SCHEMA } from '../../helpers/every-kind.ts';
import { scratch } from '../../helpers/scratch.ts';
import { VERSIONS } from '../../helpers/servers.ts';

const TABLES = 'CREATE TABLE public.one (id bigint PRIMARY KEY, v text); CREATE TABLE public.two (v text)';

async function look(session: Session): Promise<{ asked: string[]; empty: Set<string> }> {
  await session.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
  await session.query('SET LOCAL search_path = pg_catalog');
  const { questions } = await questionsTo(session);
  const asked = [...questions, ...IDENTITY_BY_KIND, ...UNMODELED];
  return { asked, empty: await withoutAnswer(session, asked) };
}

describe.each(VERSIONS)('on PostgreSQL %i', (version) => {
  test.each([
    ['nothing', '', 40],
    ['tables alone', TABLES, 35],
    ['something of every kind', `${SCHEMA}; ${DEPENDING}`, 5],
  ])('of %s no question is left out that has an answer', async (_, schema, leftOut) => {
    const { session, drop } = await scratch(version, schema);
    try {
      const { empty } = await look(session);
      for (const sql of empty) expect(await session.query(sql), sql).toEqual([]);
      expect(empty.size).toBeGreaterThan(leftOut);
    } finally {
      await drop();
    }
  });

  test('all are asked of a role that may not look', async () => {
    const { session, drop } = await scratch(version, TABLES);
    try {
      await session.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
      await session.query(
        'REVOKE SELECT ON pg_catalog.pg_ts_parser FROM PUBLIC; SET LOCAL ROLE pg_read_all_settings',
      );
      expect((await withoutAnswer(session, UNMODELED)).size).toBe(0);
      // The transaction goes on.
      expect(await session.query('SELECT 1 AS one')).toEqual([{ one: 1 }]);
    } finally {
      await session.query('ROLLBACK');
      await drop();
    }
  });
});
