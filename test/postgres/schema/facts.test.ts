import { describe, expect, test } from 'vitest';
import { fingerprint } from '../../../src/schema/compare.ts';
import { takeSnapshot } from '../../../src/schema/facts.ts';
import { openSession } from '../../../src/target/connect.ts';
import { scratch } from '../../helpers/scratch.ts';
import { VERSIONS } from '../../helpers/servers.ts';

const SCHEMA = `CREATE TYPE public.mood AS ENUM ('good', 'bad');
  CREATE TABLE public.people (id bigint PRIMARY KEY, mood public.mood, at timestamptz DEFAULT now());
  CREATE VIEW public.names AS SELECT id FROM public.people;
  CREATE FUNCTION public.one() RETURNS integer LANGUAGE sql AS 'SELECT 1'`;

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
      const together = await takeSnapshot(session, { room: Promise.resolve(), open });
      expect(fingerprint(together)).toBe(fingerprint(alone));
      expect(together.identity).toEqual(alone.identity);
      expect(together.unmodeled).toEqual(alone.unmodeled);
      expect(fingerprint(await takeSnapshot(session))).not.toBe(fingerprint(alone));
    } finally {
      await drop();
    }
  });

  test('a helper that is not let in, or never gets room, is done without', async () => {
    const { session, drop } = await scratch(version, SCHEMA);
    try {
      const alone = fingerprint(await takeSnapshot(session));
      const shutOut = () => Promise.reject(new Error('too many connections'));
      const never = new Promise<never>(() => {});
      expect(fingerprint(await takeSnapshot(session, { room: Promise.resolve(), open: shutOut }))).toBe(
        alone,
      );
      expect(fingerprint(await takeSnapshot(session, { room: never, open: shutOut }))).toBe(alone);
    } finally {
      await drop();
    }
  });
});
