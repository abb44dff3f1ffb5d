import { describe, expect, test } from 'vitest';
import type { AuditEntry } from '../../../src/postgres/connection/audit.ts';
import { openSession } from '../../../src/postgres/connection/connect.ts';
import { openSchemaWatch } from '../../../src/schema/schema-watch.ts';
import { scratch } from '../../helpers/scratch.ts';
import { VERSIONS } from '../../helpers/servers.ts';

describe.each(VERSIONS)('on %d', (version) => {
  test('a thread of its own compares before and after, and describes another database', async () => {
    const clone = await scratch(version, 'CREATE TABLE public.t (a integer)');
    const target = await scratch(version, 'CREATE TABLE public.t (a integer, b text)');
    const audited: AuditEntry[] = [];
    const watch = await openSchemaWatch((entry) => audited.push(entry));
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

  test.each([
    ['without renames', 'ALTER TABLE t ADD COLUMN c integer'],
    ['with renames, which it takes back there', 'ALTER TABLE t RENAME TO u'],
  ])('tells when it has left the database, before it compares: %s', async (_how, sql) => {
    const { session, settings, drop } = await scratch(version, 'CREATE TABLE public.t (a integer)');
    const watch = await openSchemaWatch();
    try {
      await watch.before(settings);
      await session.query(sql);
      const told: string[] = [];
      let left: Promise<unknown> | undefined;
      const onLeft = () => {
        told.push('left');
        left = session.query(
          "SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'safemigrate schema'",
        );
      };
      const { section } = await watch.after({ onRead: () => told.push('read'), onLeft });
      told.push('compared');
      expect(told).toEqual(['read', 'left', 'compared']);
      expect(await left).toEqual([]);
      expect(section.changes).not.toEqual([]);
    } finally {
      await watch.close();
      await drop();
    }
  });

  test('closing it ends what it is waiting for at once', async () => {
    const { session, settings, drop } = await scratch(
      version,
      'CREATE TABLE public.t (a integer); CREATE VIEW public.v AS SELECT a FROM public.t',
    );
    const holder = await openSession(settings, { purpose: 'test' });
    const watch = await openSchemaWatch();
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

  test('a database that cannot be reached is told as it is elsewhere', async () => {
    const { settings, drop } = await scratch(version);
    const watch = await openSchemaWatch();
    await expect(watch.before({ ...settings, database: 'not there' })).rejects.toMatchObject({
      name: 'SafemigrateError',
      code: 'CONNECTION',
    });
    await watch.close();
    await drop();
  });
});
