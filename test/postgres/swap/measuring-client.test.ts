import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, describe, expect, test } from 'vitest';
import { inTransaction, openingStatements } from '../../../src/ownership/reopen.ts';
import { openSession } from '../../../src/postgres/connection/connect.ts';
import type { ConnectionSettings } from '../../../src/postgres/connection/connection-settings.ts';
import { parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../../src/postgres/connection/environment.ts';
import type { Session } from '../../../src/postgres/connection/session.ts';
import { closeDatabase } from '../../../src/swap/fence.ts';
import { MeasuringClient } from '../../../src/swap/measuring-client.ts';
import { until } from '../../helpers/cutting.ts';
import { temporaryDatabase, withClient } from '../../helpers/database.ts';
import { NEWEST, serverUrl } from '../../helpers/servers.ts';

const signal = new AbortController().signal;
const settingsOf = (url: string) => parseSettings(url, readEnvironment({}, '/'));

const opened: Session[] = [];
const probes: MeasuringClient[] = [];
afterEach(async () => {
  await Promise.all(probes.splice(0).map((probe) => probe.stop()));
  await Promise.all(opened.splice(0).map((session) => session.close()));
});

/** A client, and how often it has tried to log in. */
function clientOf(settings: ConnectionSettings) {
  const logins = { count: 0 };
  const connect = (connecting: AbortSignal) => {
    logins.count++;
    return openSession(settings, { purpose: 'client', signal: connecting });
  };
  const probe = new MeasuringClient(connect, false);
  probes.push(probe);
  return { probe, logins };
}

describe.each(NEWEST)('a client that measures, on PostgreSQL %d', (version) => {
  /** A database, with a session beside it. */
  async function closable() {
    const { url, name } = await temporaryDatabase(version);
    const session = await openSession(settingsOf(serverUrl(version)), { purpose: 'test' });
    opened.push(session);
    const [row] = await session.query<{ oid: string }>(
      'SELECT oid::int8 AS oid FROM pg_database WHERE datname = $1',
      [name],
    );
    const database = { database: name, oid: Number(row?.oid) };
    const sessionsInside = () =>
      session.query('SELECT pid FROM pg_stat_activity WHERE datid = $1', [database.oid]);
    return { url, name, session, database, sessionsInside };
  }

  test('has no answer while the database is closed, does not log in meanwhile, and counts as nobody', async () => {
    const { url, name, session, database, sessionsInside } = await closable();
    const { probe, logins } = clientOf(settingsOf(url));
    const beganAt = performance.now();
    await probe.begin();
    const fence = await closeDatabase(session, database, 'ours', signal);
    expect(fence.ended).toBe(0);
    const closedAt = performance.now();
    await delay(300);
    expect(logins.count).toBe(1);
    expect(await sessionsInside()).toEqual([]);
    await session.query(`ALTER DATABASE "${name}" RENAME TO "${name}_renamed"`);
    await session.query(`ALTER DATABASE "${name}_renamed" RENAME TO "${name}"`);
    await inTransaction(session, openingStatements(name, null));
    const closedMs = performance.now() - closedAt;
    const gapMs = await probe.opened();
    expect(gapMs).toBeGreaterThanOrEqual(closedMs);
    expect(gapMs).toBeLessThan(performance.now() - beganAt);
    await until('its session has ended', async () => (await sessionsInside()).length === 0);
  });

  test('measures each time anew', async () => {
    const { url, name, session, database } = await closable();
    const { probe } = clientOf(settingsOf(url));
    for (const closedForMs of [400, 0]) {
      const beganAt = performance.now();
      await probe.begin();
      await closeDatabase(session, database, 'ours', signal);
      await delay(closedForMs);
      await inTransaction(session, openingStatements(name, null));
      const gapMs = (await probe.opened()) ?? -1;
      expect(gapMs).toBeGreaterThan(closedForMs);
      expect(gapMs).toBeLessThan(performance.now() - beganAt);
    }
  });

  test('measures nothing if its role may have no further session', async () => {
    const { url, name } = await closable();
    const role = `limited_${name.slice(-12)}`;
    await withClient(url, (client) =>
      client.query(`CREATE ROLE ${role} LOGIN CONNECTION LIMIT 1 PASSWORD 'limited'`),
    );
    const settings = { ...settingsOf(url), user: role, password: 'limited' };
    const only = await openSession(settings, { purpose: 'test' });
    const { probe, logins } = clientOf(settings);
    await probe.begin();
    expect(await probe.opened()).toBeNull();
    expect(logins.count).toBe(1);
    await only.close();
    await withClient(url, (client) => client.query(`DROP ROLE ${role}`));
  });
});

test('a client that measures ends by itself if the database stays closed', { timeout: 30_000 }, async () => {
  const { url, name } = await temporaryDatabase(18);
  const session = await openSession(settingsOf(serverUrl(18)), { purpose: 'test' });
  opened.push(session);
  const { probe } = clientOf(settingsOf(url));
  await probe.begin();
  await session.query(`ALTER DATABASE "${name}" ALLOW_CONNECTIONS false`);
  await session.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${name}'`);
  expect(await probe.opened()).toBeNull();
  await session.query(`ALTER DATABASE "${name}" ALLOW_CONNECTIONS true`);
});
