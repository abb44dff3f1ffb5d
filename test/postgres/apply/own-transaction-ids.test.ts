import { Client } from 'pg';
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Fate, TransactionWatch } from '../../../src/apply/own-transaction-ids.ts';
import { openSession } from '../../../src/postgres/connection/connect.ts';
import { parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../../src/postgres/connection/environment.ts';
import type { Session } from '../../../src/postgres/connection/session.ts';
import type { Observed, Statement } from '../../../src/proxy/observed.ts';
import { until } from '../../helpers/cutting.ts';
import { type TemporaryDatabase, temporaryDatabase } from '../../helpers/database.ts';
import { OLDEST_AND_NEWEST, useOwnServers } from '../../helpers/servers.ts';

beforeAll(() => useOwnServers(...OLDEST_AND_NEWEST));

const LOST = { tag: null, rows: null, error: new Map([['C', '08006']]), durationMs: 1 };

describe.each(OLDEST_AND_NEWEST)(
  'the fate of a transaction whose connection was lost, on PostgreSQL %i',
  (version) => {
    let target: TemporaryDatabase;
    let session: Session;
    let command: Client;
    let watch: TransactionWatch;
    let pid: number;
    let asked: string[];
    /** Number of reads of the transaction ids. */
    const looks = () => asked.filter((sql) => sql.includes('backend_xid')).length;

    beforeEach(async () => {
      target = await temporaryDatabase(version);
      asked = [];
      session = await openSession(parseSettings(target.url, readEnvironment({}, '.')), {
        purpose: 'test',
        audit: ({ sql }) => asked.push(sql),
      });
      command = new Client(target.url);
      await command.connect();
      const { rows } = await command.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
      pid = rows[0]?.pid ?? 0;
      watch = new TransactionWatch(session);
      watch.observe({
        type: 'session',
        session: 1,
        pid,
        user: 'u',
        database: target.name,
        application: '',
        parameters: [],
      });
    });

    afterEach(async () => {
      await command.end();
      await session.close();
      await target.drop();
    });

    const statement = (id: number, sql: string, explicit = true): Statement => ({
      shape: sql,
      id,
      session: 1,
      pid,
      sql,
      note: null,
      transaction: 1,
      explicit,
      startedAt: new Date(),
    });

    /** As the proxy tells it. */
    async function send(id: number, sql: string): Promise<void> {
      watch.observe({ type: 'begin', statement: statement(id, sql) });
      await command.query(sql);
      const outcome = { tag: '', rows: null, error: null, durationMs: 1 };
      watch.observe({ type: 'end', statement: statement(id, sql), outcome });
    }

    function lose(id: number, sql: string): void {
      watch.observe({ type: 'begin', statement: statement(id, sql) });
      watch.observe({ type: 'end', statement: statement(id, sql), outcome: LOST });
      watch.observe(transactionEnd(true));
    }

    const transactionEnd = (lost: boolean): Observed => ({
      type: 'transaction-end',
      session: 1,
      transaction: 1,
      at: new Date(),
      outcome: 'rolled back',
      lost,
    });

    const fate = async (): Promise<Fate | undefined> => (await watch.fates(session)).get(1);

    test('a transaction cut off after the server had committed was committed', async () => {
      await send(1, 'BEGIN');
      await send(2, 'CREATE TABLE made (id int)');
      await watch.settled();
      await command.query('COMMIT');
      lose(3, 'COMMIT');
      expect(await fate()).toBe('committed');
    });

    test('a transaction cut off before the server got its COMMIT was rolled back', async () => {
      await send(1, 'BEGIN');
      await send(2, 'CREATE TABLE made (id int)');
      await watch.settled();
      await command.query('ROLLBACK');
      lose(3, 'COMMIT');
      expect(await fate()).toBe('rolled back');
    });

    test('a transaction still in progress is waited for', async () => {
      await send(1, 'BEGIN');
      await send(2, 'CREATE TABLE made (id int)');
      await watch.settled();
      lose(3, 'COMMIT');
      const waiting = fate();
      await command.query('COMMIT');
      expect(await waiting).toBe('committed');
    });

    test('a transaction cut off between two statements was rolled back', async () => {
      await send(1, 'BEGIN');
      await send(2, 'CREATE TABLE made (id int)');
      watch.observe(transactionEnd(true));
      expect(await fate()).toBe('rolled back');
    });

    test('a transaction is unknown if its id was never read, or the server cannot be asked', async () => {
      watch.observe({ type: 'begin', statement: statement(1, 'CREATE TABLE made (id int)', false) });
      const sql = 'CREATE TABLE made (id int)';
      watch.observe({ type: 'end', statement: statement(1, sql, false), outcome: LOST });
      watch.observe(transactionEnd(true));
      expect(await fate()).toBe('unknown');
      expect((await watch.fates(null)).get(1)).toBe('unknown');
    });

    test('a retried transaction has the fate of its last attempt', async () => {
      const sql = 'CREATE TABLE made (id int)';
      const attempt = statement(1, sql, false);
      // It is looked at once, a moment after it is told of: by then it is to have its id, on a slow machine too.
      await command.query('BEGIN');
      await command.query(sql);
      watch.observe({ type: 'begin', statement: attempt });
      await until('the id is read', async () => looks() > 0);
      await watch.settled();
      await command.query('ROLLBACK');
      watch.observe({ type: 'undone', session: 1, transaction: 1, statements: [attempt] });
      await command.query('BEGIN');
      await command.query(sql);
      const before = looks();
      watch.observe({ type: 'begin', statement: statement(1, sql, false) });
      await until('the id is read again', async () => looks() > before);
      await watch.settled();
      await command.query('COMMIT');
      watch.observe({ type: 'end', statement: statement(1, sql, false), outcome: LOST });
      watch.observe(transactionEnd(true));
      expect(await fate()).toBe('committed');
    });

    test('a transaction whose end was reported has no fate to find out', async () => {
      await send(1, 'BEGIN');
      watch.observe(transactionEnd(false));
      expect(await fate()).toBeUndefined();
    });
  },
);
