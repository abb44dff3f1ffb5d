import { encodeId, type FactBase } from '@supabase/pg-delta/core';
import { extract } from '@supabase/pg-delta/extract';
import { Pool } from 'pg';
import { describe, expect, test, vi } from 'vitest';
import { snapshotAfter, takeSnapshot } from '../../../src/schema/schema-facts.ts';
import { DEPENDING, SCHEMA } from '../../helpers/every-kind.ts';
import { scratch } from '../../helpers/scratch.ts';
import { VERSIONS } from '../../helpers/servers.ts';

function contentOf(base: FactBase) {
  return {
    facts: base
      .facts()
      // Roles belong to the whole server, and other tests create some meanwhile.
      .filter(({ id }) => id.kind !== 'role' && id.kind !== 'membership')
      .map(({ id }) => `${encodeId(id)} ${base.rollupOf(id)}`)
      .sort(),
    edges: base.edges.map(({ from, to }) => `${encodeId(from)} -> ${encodeId(to)}`).sort(),
  };
}

describe.each(VERSIONS)('on PostgreSQL %i', (version) => {
  test('a session of ours reads the facts that pg-delta reads with a pool of its own', async () => {
    const sql = `${SCHEMA}; ${DEPENDING}`;
    const { session, settings, drop } = await scratch(version, sql);
    const { user, password, database, hosts } = settings;
    const pool = new Pool({ ...hosts[0], user, database, ...(password === undefined ? {} : { password }) });
    // Its end does not wait for its sessions, so that the drop may end them first.
    pool.on('error', () => {});
    try {
      const { factBase } = await extract(pool);
      const query = vi.spyOn(session, 'query');
      expect(contentOf((await takeSnapshot(session)).facts)).toEqual(contentOf(factBase));
      expect(factBase.edges.length).toBeGreaterThan(50);
      // The server names the ends of those dependencies only that pg-delta keeps.
      expect(query.mock.calls.filter(([sql]) => sql.includes('d.objid >= 16384'))).toHaveLength(1);
    } finally {
      await pool.end();
      await drop();
    }
  });

  test('statements before a reading are seen by it, and rolled back after it', async () => {
    const { session, drop } = await scratch(version, 'CREATE TABLE public.t (a integer)');
    try {
      const { facts, identity } = await snapshotAfter(session, ['ALTER TABLE public.t RENAME TO u']);
      expect(facts.has({ kind: 'table', schema: 'public', name: 'u' })).toBe(true);
      expect([...identity.values()].map(({ name }) => name)).toContain('u');
      const now = await takeSnapshot(session);
      expect(now.facts.has({ kind: 'table', schema: 'public', name: 't' })).toBe(true);
    } finally {
      await drop();
    }
  });
});
