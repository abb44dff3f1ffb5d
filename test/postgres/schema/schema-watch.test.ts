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

  test('no session of it stays in the database between its readings', async () => {
    const { session, settings, drop } = await scratch(version, 'CREATE TABLE public.t (a integer)');
    const watch = await openSchemaWatch();
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
    const watch = await openSchemaWatch();
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

  test('a database that cannot be reached is a CONNECTION error', async () => {
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
