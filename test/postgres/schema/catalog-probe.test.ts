import { describe, expect, test } from 'vitest';
import type { Session } from '../../../src/postgres/connection/session.ts';
import { lookAround, type Presence } from '../../../src/schema/catalog-probe.ts';
import { questionsTo } from '../../../src/schema/extraction.ts';
import { IDENTITY_BY_KIND } from '../../../src/schema/identity.ts';
import { UNMODELED } from '../../../src/schema/unmodeled.ts';
import { DEPENDING, SCHEMA, TABLES } from '../../helpers/every-kind.ts';
import { scratch } from '../../helpers/scratch.ts';
import { VERSIONS } from '../../helpers/servers.ts';

async function look(session: Session): Promise<Presence> {
  await session.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
  await session.query('SET LOCAL search_path = pg_catalog');
  const { questions } = await questionsTo(session);
  return await lookAround(session, [...questions, ...IDENTITY_BY_KIND, ...UNMODELED]);
}

const ALSO = ['SELECT 7 AS seven', 'SELECT 8 AS eight'];

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

  test('what is to be asked as well is answered along with it', async () => {
    const { session, drop } = await scratch(version, TABLES);
    try {
      await session.query('BEGIN');
      const { empty, rows } = await lookAround(session, UNMODELED, ALSO);
      expect(empty.size).toBeGreaterThan(0);
      expect(rows).toEqual([[{ seven: 7 }], [{ eight: 8 }]]);
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
      const { empty, linked, rows } = await lookAround(session, UNMODELED, ALSO);
      expect([empty.size, linked]).toEqual([0, undefined]);
      expect(rows).toEqual([[{ seven: 7 }], [{ eight: 8 }]]);
      // The transaction goes on.
      expect(await session.query('SELECT 1 AS one')).toEqual([{ one: 1 }]);
    } finally {
      await session.query('ROLLBACK');
      await drop();
    }
  });
});
