import { describe, expect, test } from 'vitest';
import type { AuditEntry } from '../../../src/postgres/connection/audit.ts';
import { openSession } from '../../../src/postgres/connection/connect.ts';
import { SchemaWatch } from '../../../src/schema/schema-watch.ts';
import { DEPENDING, SCHEMA } from '../../helpers/every-kind.ts';
import { scratch } from '../../helpers/scratch.ts';
import { NEWEST } from '../../helpers/servers.ts';

describe.each(NEWEST)('on %d', (version) => {
  test('a thread of its own compares before and after, and describes another database', async () => {
    const clone = await scratch(version, 'CREATE TABLE public.t (a integer)');
    const target = await scratch(version, 'CREATE TABLE public.t (a integer, b text)');
    const audited: AuditEntry[] = [];
    const watch = new SchemaWatch((entry) => audited.push(entry));
    try {
      await watch.before(clone.settings);
      await clone.session.query('ALTER TABLE t RENAME TO u; ALTER TABLE u ADD COLUMN c integer');
      const { section, caveats } = await watch.after();
      expect(section.renames).toEqual([{ kind: 'table', from: 'public.t', to: 'public.u' }]);
      expect(section.changes.map(({ verb, kind, object }) => [verb, kind, object])).toEqual([
        ['create', 'column', 'public.t.c'],
        ['rename', 'table', 'public.u'],
      ]);
      expect(caveats).toEqual([]);
      expect((await watch.describe(target.settings)).map(({ object }) => object)).toEqual(['public.t.b']);
      expect(new Set(audited.map(({ database }) => database))).toEqual(
        new Set([clone.settings.database, target.settings.database]),
      );
    } finally {
      await watch.close();
      await clone.drop();
      await target.drop();
    }
  });

  test('no session of it stays in the database between its readings', async () => {
    const { session, settings, drop } = await scratch(version, 'CREATE TABLE public.t (a integer)');
    const watch = new SchemaWatch();
    const sessions = () =>
      session.query(
        "SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'safemigrate schema'",
      );
    try {
      await watch.before(settings);
      expect(await sessions()).toEqual([]);
      await session.query('ALTER TABLE t RENAME TO u');
      const { section } = await watch.after();
      expect(await sessions()).toEqual([]);
      expect(section.renames).toHaveLength(1);
    } finally {
      await watch.close();
      await drop();
    }
  });

  test('an error in the thread reaches the caller, and the next request is answered', async () => {
    const { settings, drop } = await scratch(version, 'CREATE TABLE public.t (a integer)');
    const watch = new SchemaWatch();
    try {
      await expect(watch.fingerprint()).rejects.toThrow(
        'fingerprint: the schema before the command was not read',
      );
      await watch.before(settings);
      expect(await watch.fingerprint()).toMatch(/^[0-9a-f]{64}$/);
    } finally {
      await watch.close();
      await drop();
    }
  });

  test('closing it interrupts a reading that waits for a lock', async () => {
    const { session, settings, drop } = await scratch(
      version,
      'CREATE TABLE public.t (a integer); CREATE VIEW public.v AS SELECT a FROM public.t',
    );
    const holder = await openSession(settings, { purpose: 'test' });
    const watch = new SchemaWatch();
    try {
      await holder.query('BEGIN; LOCK TABLE public.t, public.v IN ACCESS EXCLUSIVE MODE');
      const reading = expect(watch.before(settings)).rejects.toMatchObject({ code: 'INTERRUPTED' });
      await expect
        .poll(() =>
          session.query(
            "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()",
          ),
        )
        .toHaveLength(1);
      await watch.close();
      await reading;
    } finally {
      await holder.close();
      await drop();
    }
  });

  test('a database that cannot be reached is a CONNECTION error', async () => {
    const { settings, drop } = await scratch(version);
    const watch = new SchemaWatch();
    await expect(watch.before({ ...settings, database: 'not there' })).rejects.toMatchObject({
      name: 'SafemigrateError',
      code: 'CONNECTION',
    });
    await watch.close();
    await drop();
  });
});

describe('a schema on another version', () => {
  const VIEWS = `${SCHEMA}; ${DEPENDING}; CREATE FUNCTION public.of_mood(public.mood) RETURNS integer LANGUAGE sql AS 'SELECT 1';
    CREATE OPERATOR public.=== (LEFTARG = integer, RIGHTARG = integer, FUNCTION = public.acc); CREATE STATISTICS public.st ON d, n FROM public.things;
    CREATE CAST (public.mood AS integer) WITH FUNCTION public.of_mood(public.mood); ALTER TABLE public.things ALTER t SET STATISTICS 50;
    SELECT nextval('public.counter'); CREATE TEXT SEARCH CONFIGURATION public.words (COPY = simple);
    CREATE FUNCTION public.atomic(n integer) RETURNS bigint BEGIN ATOMIC SELECT count(*) FROM public.people WHERE id > n; END;
    CREATE TABLE public.t (a integer, b text, at timestamptz); CREATE TABLE public.u (a integer);
    CREATE VIEW public.v AS SELECT t.a, upper(b) AS b FROM t WHERE EXISTS (SELECT FROM u WHERE u.a = t.a) AND extract(year FROM at) > 2000;
    CREATE VIEW public.w (x, y) WITH (security_barrier) AS SELECT a, row_number() OVER (ORDER BY b) FROM v GROUP BY a, b;
    CREATE MATERIALIZED VIEW public.m AS WITH RECURSIVE r(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM r WHERE a < 3) SELECT * FROM r JOIN t USING (a);
    COMMENT ON VIEW public.v IS 'kept'; CREATE INDEX ON public.m (a); GRANT SELECT ON public.w TO PUBLIC;
    CREATE RULE r AS ON INSERT TO public.w DO INSTEAD INSERT INTO u VALUES (new.x);`;

  test('has no other views if it prints the same ones differently, and others if they differ', async () => {
    const old = await scratch(14, VIEWS);
    const same = await scratch(18, VIEWS);
    const other = await scratch(18, VIEWS.replace('> 2000', '> 2001'));
    const watch = new SchemaWatch();
    try {
      await watch.before(old.settings);
      expect(await watch.describe(same.settings)).not.toEqual([]);
      const { changes, unmodeled } = await watch.upgraded(same.settings);
      // Privileges of owners and of the schema public depend on the version that makes a database, not on one that it is upgraded to.
      expect(changes.filter(({ verb }) => verb !== 'grant' && verb !== 'revoke')).toEqual([]);
      expect(unmodeled).toEqual([]);
      const { changes: differing } = await watch.upgraded(other.settings);
      expect(
        new Set(differing.filter(({ verb }) => verb === 'create').map(({ object }) => object)),
      ).toContain('public.v');
      expect(
        await same.session.query("SELECT FROM pg_class WHERE relname = 'safemigrate_reprinted'"),
      ).toEqual([]);
    } finally {
      await watch.close();
      for (const each of [old, same, other]) await each.drop();
    }
  });
});
