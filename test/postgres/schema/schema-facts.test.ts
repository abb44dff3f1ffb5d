import { encodeId, type FactBase } from '@supabase/pg-delta/core';
import { extract } from '@supabase/pg-delta/extract';
import type { Pool } from 'pg';
import { describe, expect, test } from 'vitest';
import { openSession } from '../../../src/postgres/connection/connect.ts';
import { fingerprint } from '../../../src/schema/compare-schemas.ts';
import { factsFrom, leaner } from '../../../src/schema/extraction.ts';
import { takeSnapshot } from '../../../src/schema/schema-facts.ts';
import { DEPENDING, SCHEMA, TABLES } from '../../helpers/every-kind.ts';
import { scratch } from '../../helpers/scratch.ts';
import { VERSIONS } from '../../helpers/servers.ts';

function told(base: FactBase) {
  return {
    facts: base
      .facts()
      // Roles are the whole server's: other tests make some meanwhile.
      .filter(({ id }) => id.kind !== 'role' && id.kind !== 'membership')
      .map(({ id }) => `${encodeId(id)} ${base.rollupOf(id)}`)
      .sort(),
    edges: base.edges.map(({ from, to }) => `${encodeId(from)} -> ${encodeId(to)}`).sort(),
  };
}

describe.each(VERSIONS)('on PostgreSQL %i', (version) => {
  test('two sessions read together what one reads alone, at the same moment', async () => {
    const { session, settings, drop } = await scratch(version, SCHEMA);
    try {
      const alone = await takeSnapshot(session);
      const open = async () => {
        // What comes after the first session's snapshot is seen by neither.
        const late = await openSession(settings, { purpose: 'test' });
        await late.query('CREATE TABLE public.latecomers (id bigint PRIMARY KEY)');
        await late.close();
        return await openSession(settings, { purpose: 'helper' });
      };
      const together = await takeSnapshot(session, { helper: { room: Promise.resolve(), open } });
      expect(await fingerprint(together)).toBe(await fingerprint(alone));
      expect(together.identity).toEqual(alone.identity);
      expect(together.unmodeled).toEqual(alone.unmodeled);
      expect(await fingerprint(await takeSnapshot(session))).not.toBe(await fingerprint(alone));
    } finally {
      await drop();
    }
  });

  test.each([
    ['nothing', '', 0],
    ['tables alone', TABLES, 3],
    ['a few kinds', SCHEMA, 5],
    ['every kind', `${SCHEMA}; ${DEPENDING}`, 50],
  ])(
    'asked with less work for the server, %s is told as by pg-delta’s own questions',
    async (_, sql, edges) => {
      const { session, drop } = await scratch(version, sql);
      try {
        let rewritten = 0;
        const query = (sql: string) => {
          if (leaner(sql) !== sql) rewritten++;
          return session.client.query(sql);
        };
        await session.query('SET search_path = pg_catalog');
        const pool = { connect: async () => ({ query, release: () => undefined }) } as unknown as Pool;
        const { factBase } = await extract(pool);
        expect(told(await factsFrom((await takeSnapshot(session)).answers))).toEqual(told(factBase));
        // Those for dependencies, tables, columns and views.
        expect(rewritten).toBe(4);
        expect(factBase.edges.length).toBeGreaterThanOrEqual(edges);
      } finally {
        await drop();
      }
    },
  );

  test('a helper that is not let in, or never gets room, is done without', async () => {
    const { session, drop } = await scratch(version, SCHEMA);
    try {
      const alone = await fingerprint(await takeSnapshot(session));
      const shutOut = () => Promise.reject(new Error('too many connections'));
      const never = new Promise<never>(() => {});
      expect(
        await fingerprint(
          await takeSnapshot(session, { helper: { room: Promise.resolve(), open: shutOut } }),
        ),
      ).toBe(alone);
      expect(await fingerprint(await takeSnapshot(session, { helper: { room: never, open: shutOut } }))).toBe(
        alone,
      );
    } finally {
      await drop();
    }
  });
});
