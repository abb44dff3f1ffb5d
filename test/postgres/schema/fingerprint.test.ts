import { describe, expect, test } from 'vitest';
import { compareWith, fingerprint } from '../../../src/schema/compare-schemas.ts';
import { takeSnapshot } from '../../../src/schema/schema-facts.ts';
import { scratch } from '../../helpers/scratch.ts';
import { VERSIONS } from '../../helpers/servers.ts';

const SCHEMA = `
CREATE TYPE mood AS ENUM ('sad', 'glad');
CREATE TABLE customers (id bigint PRIMARY KEY, mood mood);
CREATE TABLE orders (id bigserial PRIMARY KEY, customer bigint REFERENCES customers, note text, total integer);
CREATE TABLE items (id bigint PRIMARY KEY, of bigint REFERENCES orders);
CREATE INDEX by_note ON orders (note);
CREATE VIEW totals AS SELECT sum(total) FROM orders;
CREATE TABLE events (at date NOT NULL) PARTITION BY RANGE (at);
CREATE TABLE events_2025 PARTITION OF events FOR VALUES FROM ('2025-01-01') TO ('2026-01-01');
CREATE SEQUENCE counter;
CREATE TABLE numbered (n bigint DEFAULT nextval('counter'));
CREATE TABLE alone (a integer, b text COLLATE "C");
CREATE SCHEMA apart;
CREATE TABLE apart.orders (id bigint PRIMARY KEY);
CREATE PUBLICATION told FOR TABLE alone`;

describe.each(VERSIONS)('on %d', (version) => {
  test('the fingerprint shows any change of a relation, but not the order of its columns', async () => {
    const { session, drop } = await scratch(version, SCHEMA);
    try {
      const seen = new Map([[fingerprint(await takeSnapshot(session)), 'nothing']]);
      for (const change of [
        'ALTER TABLE alone ALTER a SET NOT NULL',
        'ALTER TABLE alone ALTER a SET DEFAULT 7',
        'ALTER TABLE alone ALTER b TYPE varchar(7)',
        'ALTER TABLE alone SET (fillfactor = 70, autovacuum_enabled = false)',
        'ALTER TABLE alone ENABLE ROW LEVEL SECURITY',
        'CREATE POLICY p ON alone USING (a > 0)',
        'ALTER POLICY p ON alone USING (a > 1)',
        'ALTER TABLE items ADD CONSTRAINT positive CHECK (of > 0) NOT VALID',
        'ALTER TABLE items VALIDATE CONSTRAINT positive',
        'GRANT SELECT ON alone TO PUBLIC',
        'GRANT UPDATE (a) ON alone TO PUBLIC',
        'COMMENT ON INDEX by_note IS $$x$$',
        'ALTER SEQUENCE counter INCREMENT 2',
        'CREATE RULE r AS ON DELETE TO alone DO INSTEAD NOTHING',
        'ALTER TABLE alone DISABLE RULE r',
        'CREATE OR REPLACE VIEW totals AS SELECT sum(total + 1) FROM orders',
        'ALTER TABLE customers OWNER TO pg_monitor',
        'ALTER TABLE events DETACH PARTITION events_2025',
        'ALTER TABLE alone RENAME TO lonely',
      ]) {
        await session.query(change);
        const now = fingerprint(await takeSnapshot(session));
        expect(seen.get(now), change).toBeUndefined();
        seen.set(now, change);
      }
      const before = fingerprint(await takeSnapshot(session));
      await session.query(`ALTER TABLE items DROP of; ALTER TABLE items ADD of bigint REFERENCES orders;
        ALTER TABLE items ADD CONSTRAINT positive CHECK (of > 0)`);
      expect(fingerprint(await takeSnapshot(session))).toBe(before);
      await session.query('ALTER TABLE lonely RESET (fillfactor); ALTER TABLE lonely SET (fillfactor = 70)');
      expect(fingerprint(await takeSnapshot(session))).toBe(before);
    } finally {
      await drop();
    }
  });

  test('the options of a column count if users set them, not what the server keeps there for itself', async () => {
    const { session, drop } = await scratch(version, SCHEMA);
    const keep = (options: string) =>
      session.query(
        `UPDATE pg_attribute SET attoptions = '{${options}}' WHERE attrelid = 'alone'::regclass AND attnum = 1`,
      );
    try {
      const before = await takeSnapshot(session);
      // As PostgreSQL 15.20 does with every column that is made.
      await keep('pg_attver=22158952');
      const { caveats, section } = await compareWith(before, session);
      expect({ caveats, unmodeled: section.unmodeled }).toEqual({ caveats: [], unmodeled: [] });
      expect(section.after).toBe(section.before);
      await keep('pg_attver=22158952,its_own=1');
      const unknown = await compareWith(before, session);
      expect(unknown.section.after).toBe(unknown.section.before);
      expect(unknown.caveats.map(({ reason }) => reason)).toEqual([
        '1 column option that safemigrate does not know (its_own): not compared',
      ]);
      await keep('n_distinct=7,pg_attver=22158952');
      const changed = await compareWith(before, session);
      expect(changed.section.after).not.toBe(changed.section.before);
      expect(changed.section.unmodeled).toEqual([
        { kind: 'column statistics target', detail: 'public.alone.a set' },
      ]);
    } finally {
      await drop();
    }
  });
});
