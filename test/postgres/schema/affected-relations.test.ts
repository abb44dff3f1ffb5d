import { encodeId } from '@supabase/pg-delta/core';
import { describe, expect, test } from 'vitest';
import { narrowed } from '../../../src/schema/affected-relations.ts';
import { fingerprint } from '../../../src/schema/compare-schemas.ts';
import { factsFrom } from '../../../src/schema/extraction.ts';
import { snapshotAfter, takeSnapshot } from '../../../src/schema/schema-facts.ts';
import { scratch } from '../../helpers/scratch.ts';
import { shareOf, VERSIONS } from '../../helpers/servers.ts';

/** Two groups of relations that have nothing to do with each other, and two tables alone. */
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

const CASES: [change: string, relations: string[]][] = [
  ['SELECT 1', []],
  ['ALTER TABLE alone ADD c integer', ['alone']],
  ['COMMENT ON COLUMN alone.b IS $$x$$', ['alone']],
  ['CREATE TABLE another (id bigint PRIMARY KEY)', ['another']],
  ['DROP TABLE apart.orders', ['apart.orders']],
  // What refers to a table, and what these refer to; what it refers to alone.
  ['ALTER TABLE customers ADD name text', ['customers', 'items', 'orders', 'orders_id_seq', 'totals']],
  ['ALTER TABLE items ADD name text', ['customers', 'items', 'orders', 'orders_id_seq']],
  ['DROP INDEX by_note', ['customers', 'items', 'orders', 'orders_id_seq', 'totals']],
  [
    'CREATE OR REPLACE VIEW totals AS SELECT sum(total + 1) FROM orders',
    ['customers', 'orders', 'orders_id_seq', 'totals'],
  ],
  ['ALTER SEQUENCE counter INCREMENT 2', ['counter', 'numbered']],
  ['ALTER TABLE events_2025 ADD CHECK (at > $$2025-01-02$$)', ['events', 'events_2025']],
  ['ALTER TYPE mood RENAME TO feeling', ['customers', 'items', 'orders', 'orders_id_seq', 'totals']],
  ['ALTER PUBLICATION told SET (publish = insert)', ['alone']],
  // Everything lies in a schema: only where that itself changes does what lies in it matter.
  ['CREATE SCHEMA third', []],
  ['COMMENT ON SCHEMA apart IS $$x$$', ['apart.orders']],
  ['CREATE FUNCTION f() RETURNS integer LANGUAGE sql AS $$SELECT 1$$', []],
];

describe.each(VERSIONS)('on %d', (version) => {
  test('of all relations only those are worked up that the difference can touch', async () => {
    const { session, drop } = await scratch(version, SCHEMA);
    try {
      const before = await takeSnapshot(session);
      for (const [change, expected] of shareOf(version, CASES)) {
        const path = (schema: string) => `SET LOCAL search_path = ${schema}`;
        const after = await snapshotAfter(session, [path('public'), change, path('pg_catalog')]);
        const relations = new Set<string>();
        for (const answers of Object.values(narrowed(before.answers, after.answers))) {
          for (const { id } of (await factsFrom(answers)).facts())
            if (['table', 'view', 'sequence'].includes(id.kind)) relations.add(encodeId(id));
        }
        const named = [...relations].map((id) => id.replace(/^\w+:(public\.)?/, '')).sort();
        expect(named, change).toEqual(expected);
      }
    } finally {
      await drop();
    }
  });

  test('the fingerprint tells any change of a relation, and not the order of its columns', async () => {
    const { session, drop } = await scratch(version, SCHEMA);
    try {
      const seen = new Map([[await fingerprint(await takeSnapshot(session)), 'nothing']]);
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
        const now = await fingerprint(await takeSnapshot(session));
        expect(seen.get(now), change).toBeUndefined();
        seen.set(now, change);
      }
      const before = await fingerprint(await takeSnapshot(session));
      await session.query(`ALTER TABLE items DROP of; ALTER TABLE items ADD of bigint REFERENCES orders;
        ALTER TABLE items ADD CONSTRAINT positive CHECK (of > 0)`);
      expect(await fingerprint(await takeSnapshot(session))).toBe(before);
      await session.query('ALTER TABLE lonely RESET (fillfactor); ALTER TABLE lonely SET (fillfactor = 70)');
      expect(await fingerprint(await takeSnapshot(session))).toBe(before);
    } finally {
      await drop();
    }
  });
});
