import { encodeId, type FactBase } from '@supabase/pg-delta/core';
import { extract } from '@supabase/pg-delta/extract';
import type { Pool } from 'pg';
import { describe, expect, test } from 'vitest';
import { fingerprint } from '../../../src/schema/compare.ts';
import { factsFrom, leaner } from '../../../src/schema/extraction.ts';
import { takeSnapshot } from '../../../src/schema/facts.ts';
import { openSession } from '../../../src/target/connect.ts';
import { scratch } from '../../helpers/scratch.ts';
import { VERSIONS } from '../../helpers/servers.ts';

const SCHEMA = `CREATE TYPE public.mood AS ENUM ('good', 'bad');
  CREATE TABLE public.people (id bigint PRIMARY KEY, mood public.mood, at timestamptz DEFAULT now());
  CREATE VIEW public.names AS SELECT id FROM public.people;
  CREATE FUNCTION public.one() RETURNS integer LANGUAGE sql AS 'SELECT 1'`;

/** Of every kind that others can depend on, each with something that depends on it. */
const DEPENDING = `CREATE EXTENSION pg_trgm;
  CREATE DOMAIN public.positive AS integer CHECK (VALUE > 0);
  CREATE TYPE public.pair AS (a public.positive, b public.mood[]);
  CREATE TYPE public.span AS RANGE (subtype = float8);
  CREATE FUNCTION public.twice(integer) RETURNS integer IMMUTABLE LANGUAGE sql AS 'SELECT 2 * $1';
  CREATE FUNCTION public.of_pair(public.pair) RETURNS public.mood LANGUAGE sql AS 'SELECT ($1).b[1]';
  CREATE FUNCTION public.acc(integer, integer) RETURNS integer LANGUAGE sql AS 'SELECT $1 + $2';
  CREATE AGGREGATE public.total(integer) (SFUNC = public.acc, STYPE = integer);
  CREATE COLLATION public.plain FROM "C";
  CREATE SEQUENCE public.counter;
  CREATE TABLE public.things (id integer DEFAULT nextval('public.counter'), p public.pair, s public.span, n public.positive,
    t text COLLATE public.plain, d integer DEFAULT public.twice(1), CHECK (public.twice(d) > 0));
  CREATE INDEX by_twice ON public.things (public.twice(d));
  CREATE INDEX by_trigram ON public.things USING gin (t public.gin_trgm_ops);
  CREATE VIEW public.totals AS SELECT public.total(d) AS total, public.similarity(min(t), 'a') AS alike FROM public.things;
  CREATE MATERIALIZED VIEW public.kept AS SELECT * FROM public.totals;
  CREATE FUNCTION public.touch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
  CREATE TRIGGER touched BEFORE UPDATE ON public.things FOR EACH ROW EXECUTE FUNCTION public.touch();
  CREATE POLICY few ON public.things USING (public.twice(d) > 2);
  CREATE RULE logged AS ON DELETE TO public.things DO ALSO SELECT public.twice(1);
  CREATE PUBLICATION told FOR TABLE public.things;
  CREATE VIEW public.of_catalogue AS SELECT relname FROM pg_class`;

function told(base: FactBase) {
  return {
    facts: base
      .facts()
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

  test('what is asked with less work for the server tells what pg-delta’s own questions tell', async () => {
    const { session, drop } = await scratch(version, `${SCHEMA}; ${DEPENDING}`);
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
      expect(rewritten).toBe(1);
      expect(factBase.edges.length).toBeGreaterThan(50);
    } finally {
      await drop();
    }
  });

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
