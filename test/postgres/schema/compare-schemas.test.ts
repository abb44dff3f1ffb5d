import { describe, expect, test } from 'vitest';
import { openSession } from '../../../src/postgres/connection/connect.ts';
import { compareWith, fingerprint } from '../../../src/schema/compare-schemas.ts';
import { takeSnapshot } from '../../../src/schema/schema-facts.ts';
import { scratch } from '../../helpers/scratch.ts';
import { OLDEST_AND_NEWEST } from '../../helpers/servers.ts';

const TYPES = "CREATE TYPE public.mood AS ENUM ('sad', 'glad')";
const PEOPLE = 'CREATE TABLE public.people (id bigint PRIMARY KEY, name text NOT NULL, mood public.mood)';
const PLACES = 'CREATE TABLE public.places (id bigserial PRIMARY KEY, name text UNIQUE, CHECK (id > 0))';
const INDEX = 'CREATE INDEX by_name ON public.people (lower(name))';
const STATISTICS = 'CREATE STATISTICS public.st ON id, name FROM public.people';

describe.each(OLDEST_AND_NEWEST)('on %d', (version) => {
  test('two databases with the same schema have the same fingerprint, whatever the order of its making', async () => {
    const one = await scratch(version, [TYPES, PEOPLE, PLACES, INDEX, STATISTICS].join(';'));
    const other = await scratch(version, [PLACES, TYPES, PEOPLE, STATISTICS, INDEX].join(';'));
    try {
      const first = fingerprint(await takeSnapshot(one.session));
      expect(fingerprint(await takeSnapshot(other.session))).toBe(first);
      await other.session.query(
        "INSERT INTO people VALUES (1, 'a', 'sad'); ANALYZE; SELECT nextval('places_id_seq')",
      );
      expect(fingerprint(await takeSnapshot(other.session))).toBe(first);
      for (const sql of [
        'ALTER TABLE people ALTER name SET STATISTICS 7',
        'DROP STATISTICS st',
        'DROP INDEX by_name',
      ]) {
        const before = fingerprint(await takeSnapshot(other.session));
        await other.session.query(sql);
        expect(fingerprint(await takeSnapshot(other.session)), sql).not.toBe(before);
      }
    } finally {
      await one.drop();
      await other.drop();
    }
  });

  test('a partition that is detached is not dropped, although it could not be attached again', async () => {
    const { session, drop } = await scratch(
      version,
      `CREATE TABLE events (at int NOT NULL, kind text) PARTITION BY RANGE (at);
       CREATE TABLE old PARTITION OF events FOR VALUES FROM (1) TO (2); CREATE TABLE new PARTITION OF events FOR VALUES FROM (2) TO (3)`,
    );
    try {
      const before = await takeSnapshot(session);
      await session.query(
        "ALTER TABLE events DETACH PARTITION old; ALTER TABLE events ADD CONSTRAINT known CHECK (kind <> '')",
      );
      const { section, caveats } = await compareWith(before, session);
      expect(section.changes).toEqual([
        expect.objectContaining({ verb: 'alter', kind: 'table', object: 'public.old', dataLoss: false }),
        expect.objectContaining({ verb: 'create', object: 'public.events.known' }),
      ]);
      expect(section.rollbackSql).toBeNull();
      expect(caveats.map(({ path }) => path)).toEqual(['schema.changes', 'schema.rollbackSql']);
    } finally {
      await drop();
    }
  });

  test('a default of a type that is made again, and is the same then, is not reported', async () => {
    const { session, drop } = await scratch(
      version,
      "CREATE TYPE public.mood AS ENUM ('sad', 'glad', 'odd'); CREATE TABLE public.t (m public.mood NOT NULL DEFAULT 'sad', n public.mood DEFAULT 'sad')",
    );
    try {
      const before = await takeSnapshot(session);
      // As Prisma writes it.
      await session.query(`CREATE TYPE mood_new AS ENUM ('sad', 'glad');
        ALTER TABLE t ALTER m DROP DEFAULT, ALTER n DROP DEFAULT;
        ALTER TABLE t ALTER m TYPE mood_new USING m::text::mood_new, ALTER n TYPE mood_new USING n::text::mood_new;
        ALTER TYPE mood RENAME TO mood_old; ALTER TYPE mood_new RENAME TO mood; DROP TYPE mood_old;
        ALTER TABLE t ALTER m SET DEFAULT 'sad', ALTER n SET DEFAULT 'glad'`);
      const { section } = await compareWith(before, session);
      const defaults = section.changes.filter(({ kind }) => kind === 'column default');
      expect(new Set(defaults.map(({ object }) => object))).toEqual(new Set(['public.t.n']));
    } finally {
      await drop();
    }
  });

  test.each([
    ['ALTER plain TYPE varchar(10)', ['alter plain']],
    ['ALTER kept TYPE bigint', ['alter kept', 'alter kept', 'alter kept']],
    ['ALTER kept DROP DEFAULT', ['drop kept']],
    ['ALTER kept DROP DEFAULT, ALTER kept TYPE bigint', ['drop kept', 'alter kept']],
  ])('%s: a default that did not exist is not reported as dropped', async (change, expected) => {
    const { session, drop } = await scratch(
      version,
      'CREATE TABLE public.t (plain varchar(20), kept integer DEFAULT 7)',
    );
    try {
      const before = await takeSnapshot(session);
      await session.query(`ALTER TABLE public.t ${change}`);
      const { section } = await compareWith(before, session);
      const told = section.changes.map(({ verb, object }) => `${verb} ${object.replace('public.t.', '')}`);
      expect(told.sort()).toEqual([...expected].sort());
    } finally {
      await drop();
    }
  });

  test.each([
    [
      'NO INHERIT base',
      'child',
      'CREATE TABLE child (PRIMARY KEY (a)) INHERITS (base)',
      'alter table public.child',
    ],
    ['INHERIT base', 'child', 'CREATE TABLE child (a integer PRIMARY KEY)', 'alter table public.child'],
    [
      'ALTER b DROP EXPRESSION',
      't',
      'CREATE TABLE t (a integer, b integer GENERATED ALWAYS AS (a) STORED); CREATE INDEX ON t (b)',
      'alter column public.t.b',
    ],
  ])('%s keeps the rows of %s: nothing is reported as dropped', async (change, table, made, expected) => {
    const { session, drop } = await scratch(version, `CREATE TABLE base (a integer); ${made}`);
    try {
      const before = await takeSnapshot(session);
      await session.query(`ALTER TABLE ${table} ${change}`);
      const { section } = await compareWith(before, session);
      const told = section.changes.map(({ verb, kind, object }) => `${verb} ${kind} ${object}`);
      expect(told).toContain(expected);
      expect(told.filter((each) => /^(drop|create)/.test(each))).toEqual([]);
      expect(section.changes.filter(({ dataLoss }) => dataLoss)).toEqual([]);
    } finally {
      await drop();
    }
  });

  test('changes that pg-delta does not model are reported by name', async () => {
    const more = `CREATE TYPE couple AS (id integer); CREATE TABLE of_type OF couple (PRIMARY KEY (id));
      CREATE TABLE refers (id integer CONSTRAINT refers_to REFERENCES of_type)`;
    const { session, drop } = await scratch(version, `${TYPES}; ${PEOPLE}; ${PLACES}; ${more}`);
    try {
      const before = await takeSnapshot(session);
      await session.query(`CREATE STATISTICS st ON id, name FROM people; CREATE CAST (text AS mood) WITH INOUT;
        CREATE TEXT SEARCH CONFIGURATION ts (COPY = simple); ALTER TABLE people ALTER name SET STORAGE EXTERNAL;
        ALTER TABLE people ALTER name SET STATISTICS 7; SELECT nextval('places_id_seq'); SELECT lo_create(0);
        CREATE OPERATOR === (LEFTARG = integer, RIGHTARG = integer, FUNCTION = int4eq);
        ALTER TABLE refers DISABLE TRIGGER ALL; ALTER TABLE of_type NOT OF`);
      const { section } = await compareWith(before, session);
      expect(section.changes).toEqual([]);
      expect(section.after).not.toBe(section.before);
      expect(section.unmodeled.map(({ kind, detail }) => `${kind}: ${detail}`).sort()).toEqual([
        'cast: (pg_catalog.text AS public.mood) created',
        'column statistics target: public.people.name set',
        'column storage: public.people.name set',
        'enforcement of a constraint: public.refers.refers_to switched off',
        'large object: large objects changed',
        'operator: public.===(integer,integer) created',
        'sequence value: public.places_id_seq used for the first time',
        'statistics object: public.st created',
        'table of a type: public.of_type reset',
        'text search configuration: public.ts created',
      ]);
      expect(section.rollbackLoses).toContain('statistics object: public.st created (not undone)');
    } finally {
      await drop();
    }
  });

  test('sequences of serial and identity columns are no changes of their own', async () => {
    const { session, drop } = await scratch(
      version,
      'CREATE TABLE kept (id integer); CREATE TABLE going (id serial); CREATE SEQUENCE alone',
    );
    try {
      const before = await takeSnapshot(session);
      await session.query(`CREATE TABLE fresh (id serial PRIMARY KEY, n bigint GENERATED ALWAYS AS IDENTITY);
        INSERT INTO fresh DEFAULT VALUES; ALTER TABLE kept ADD COLUMN s serial; DROP TABLE going;
        CREATE SEQUENCE other; SELECT nextval('other'); CREATE SEQUENCE given OWNED BY kept.id; SELECT nextval('alone')`);
      const { section } = await compareWith(before, session);
      expect(section.changes.map(({ verb, kind, object }) => `${verb} ${kind} ${object}`).sort()).toEqual([
        'alter sequence public.given',
        'create column public.kept.s',
        'create sequence public.given',
        'create sequence public.other',
        'create table public.fresh',
        'drop table public.going',
      ]);
      expect(section.unmodeled.map(({ detail }) => detail)).toEqual(['public.alone used for the first time']);
      await session.query(`${section.rollbackSql}`);
      const back = await compareWith(before, session);
      expect(back.section.after).toBe(section.before);
    } finally {
      await drop();
    }
  });

  test('a dropped object is reported with its cause, and with a constraint that keeps the same rule', async () => {
    const { session, drop } = await scratch(
      version,
      `CREATE TABLE public.people (id bigserial PRIMARY KEY, boss bigint CONSTRAINT boss REFERENCES public.people,
          "Order" integer CHECK ("Order" > 0), code integer CONSTRAINT code UNIQUE, a integer, b integer,
          CONSTRAINT ordered CHECK (a < b));
        CREATE INDEX by_order ON public.people ((1 + "Order")); CREATE INDEX by_code ON public.people (code);
        CREATE VIEW public.chiefs AS SELECT id FROM public.people;
        CREATE TABLE public.events (at date) PARTITION BY RANGE (at);
        CREATE TABLE public.events_2026 PARTITION OF public.events FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
        CREATE TABLE public.base (x integer); CREATE TABLE public.heir (y integer) INHERITS (public.base)`,
    );
    try {
      const before = await takeSnapshot(session);
      await session.query(`ALTER TABLE people DROP COLUMN id CASCADE, DROP COLUMN "Order", DROP COLUMN a;
        ALTER TABLE people ADD CONSTRAINT code_again UNIQUE (code), DROP CONSTRAINT code; DROP INDEX by_code;
        DROP TABLE events; DROP TABLE base CASCADE`);
      const { dropped } = await compareWith(before, session);
      const told = (name: string) => [name, dropped.get(name)?.goneWith, dropped.get(name)?.keptAs];
      expect([
        told('sequence public.people_id_seq'),
        told('constraint public.people.people_pkey'),
        told('constraint public.people.boss'),
        told('constraint public.people."people_Order_check"'),
        told('index public.by_order'),
        told('constraint public.people.ordered'),
        told('view public.chiefs'),
        told('constraint public.people.code'),
        told('index public.by_code'),
        told('table public.events_2026'),
        told('table public.heir'),
      ]).toEqual([
        ['sequence public.people_id_seq', 'public.people.id', null],
        ['constraint public.people.people_pkey', 'public.people.id', null],
        ['constraint public.people.boss', null, null],
        ['constraint public.people."people_Order_check"', 'public.people."Order"', null],
        ['index public.by_order', 'public.people."Order"', null],
        ['constraint public.people.ordered', 'public.people.a', null],
        ['view public.chiefs', null, null],
        ['constraint public.people.code', null, 'public.people.code_again'],
        ['index public.by_code', null, null],
        ['table public.events_2026', 'public.events', null],
        ['table public.heir', null, null],
      ]);
    } finally {
      await drop();
    }
  });

  test('invalid indexes and constraints are reported, and whether the command left them', async () => {
    const { session, drop } = await scratch(version, PEOPLE.replace('public.mood', 'text'));
    const concurrently = (name: string) =>
      session.query(`CREATE UNIQUE INDEX CONCURRENTLY ${name} ON people (name)`);
    try {
      await session.query("INSERT INTO people VALUES (1, 'a'), (2, 'a')");
      await expect(concurrently('earlier')).rejects.toMatchObject({ code: '23505' });
      const before = await takeSnapshot(session);
      await expect(concurrently('later')).rejects.toMatchObject({ code: '23505' });
      await session.query('ALTER TABLE people ADD CONSTRAINT c CHECK (id > 0) NOT VALID');
      const { section } = await compareWith(before, session);
      expect(section.leftovers).toEqual([
        { kind: 'invalid index', object: 'public.earlier', preexisting: true },
        { kind: 'invalid index', object: 'public.later', preexisting: false },
        { kind: 'constraint not valid', object: 'public.people.c', preexisting: false },
      ]);
    } finally {
      await drop();
    }
  });

  test('a table re-created under its old name is reported as dropped, with its rows lost', async () => {
    const { session, drop } = await scratch(version, `${TYPES}; ${PEOPLE}`);
    try {
      const before = await takeSnapshot(session);
      await session.query(`DROP TABLE people; ${PEOPLE}`);
      const { section } = await compareWith(before, session);
      expect(section.changes.map(({ verb, object, dataLoss }) => [verb, object, dataLoss])).toEqual([
        ['drop', 'public.people', true],
        ['create', 'public.people', false],
      ]);
      expect(section.rollbackLoses).toEqual(['the rows of public.people']);
      expect(section.after).toBe(section.before);
    } finally {
      await drop();
    }
  });

  test('a rename of an object that the role does not own is reported, without rollback SQL', async () => {
    const { session, settings, drop } = await scratch(version, 'CREATE TABLE public.t (a integer)');
    const role = `compare_${process.pid}`;
    await session.query(`CREATE ROLE ${role} LOGIN PASSWORD 'compare'`);
    const guest = await openSession({ ...settings, user: role, password: 'compare' }, { purpose: 'test' });
    try {
      const before = await takeSnapshot(guest);
      await session.query('ALTER TABLE t RENAME TO u');
      const { section, caveats } = await compareWith(before, guest);
      expect(section.renames).toEqual([{ kind: 'table', from: 'public.t', to: 'public.u' }]);
      expect(section.rollbackSql).toBeNull();
      expect(caveats.map(({ path }) => path)).toEqual(['schema.changes', 'schema.rollbackSql']);
    } finally {
      await guest.close();
      await session.query(`DROP ROLE ${role}`);
      await drop();
    }
  });

  test('DDL that goes on meanwhile does not end the reading', async () => {
    const { session, settings, drop } = await scratch(version);
    const busy = await openSession(settings, { purpose: 'test' });
    let done = false;
    const churn = (async () => {
      for (let i = 0; !done; i++)
        await busy.query(`CREATE TABLE public.n${i} (a integer PRIMARY KEY); CREATE VIEW public.v${i} AS SELECT a FROM public.n${i};
          DROP VIEW public.v${i}; DROP TABLE public.n${i}`);
    })();
    try {
      for (let i = 0; i < 5; i++)
        expect((await takeSnapshot(session)).facts.roots().length).toBeGreaterThan(0);
    } finally {
      done = true;
      await churn;
      await busy.close();
      await drop();
    }
  });

  test('a table that somebody holds locked delays the reading, and does not end it', async () => {
    const { session, settings, drop } = await scratch(
      version,
      `${TYPES}; ${PEOPLE}; CREATE VIEW v AS SELECT id FROM public.people`,
    );
    const holder = await openSession(settings, { purpose: 'test' });
    const onlooker = await openSession(settings, { purpose: 'test' });
    try {
      await session.query("SET lock_timeout = '100ms'");
      const open = fingerprint(await takeSnapshot(session));
      await holder.query('BEGIN; LOCK TABLE public.people, public.v IN ACCESS EXCLUSIVE MODE');
      const reading = takeSnapshot(session);
      const attempts = new Set<string>();
      const waiting =
        "SELECT xact_start::text AS at FROM pg_stat_activity WHERE pid = $1 AND wait_event_type = 'Lock'";
      await expect
        .poll(
          async () => {
            for (const { at } of await onlooker.query<{ at: string }>(waiting, [session.pid]))
              attempts.add(at);
            return attempts.size;
          },
          { timeout: 60_000 },
        )
        .toBeGreaterThan(1);
      await holder.query('ROLLBACK');
      expect(fingerprint(await reading)).toBe(open);
    } finally {
      await holder.close();
      await onlooker.close();
      await drop();
    }
  });
});

test('what publications and subscriptions have from 19 on is reported by name, also to a role that is no superuser', async () => {
  const { session, drop } = await scratch(
    19,
    `${TYPES}; ${PEOPLE}; ${PLACES}; CREATE PUBLICATION sent FOR ALL TABLES;
    CREATE PUBLICATION others FOR ALL TABLES EXCEPT (TABLE people);
    CREATE EXTENSION postgres_fdw; CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host 'nowhere.invalid');
    CREATE USER MAPPING FOR CURRENT_USER SERVER far OPTIONS (user 'x', password 'y')`,
  );
  try {
    await session.query(
      "CREATE SUBSCRIPTION sub CONNECTION 'host=nowhere.invalid' PUBLICATION p WITH (connect = false)",
    );
    await session.query('SET ROLE pg_monitor');
    const before = await takeSnapshot(session);
    await session.query('RESET ROLE');
    for (const sql of [
      'ALTER PUBLICATION sent SET ALL TABLES EXCEPT (TABLE places), ALL SEQUENCES',
      'ALTER PUBLICATION others SET ALL TABLES',
      "ALTER SUBSCRIPTION sub SET (max_retention_duration = 100, wal_receiver_timeout = '10s')",
      'ALTER SUBSCRIPTION sub SERVER far',
    ])
      await session.query(sql);
    await session.query('SET ROLE pg_monitor');
    const { section } = await compareWith(before, session);
    expect(section.changes).toEqual([]);
    expect(section.after).not.toBe(section.before);
    expect(section.unmodeled.map(({ kind, detail }) => `${kind}: ${detail}`)).toEqual([
      'table of a publication: sent: public.places left out',
      'table of a publication: others: public.people sent again',
      'sequences of a publication: sent sent',
      'option of a subscription: sub: max_retention_duration set',
      'option of a subscription: sub: wal_receiver_timeout set',
      'option of a subscription: sub: server set',
    ]);
  } finally {
    await session.query('RESET ROLE');
    await session.query('ALTER SUBSCRIPTION sub SET (slot_name = NONE)').catch(() => {});
    await session.query('DROP SUBSCRIPTION IF EXISTS sub');
    await drop();
  }
});
