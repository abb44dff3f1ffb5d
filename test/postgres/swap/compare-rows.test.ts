import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ServerVersion } from '../../../src/local-server/binaries.ts';
import type { Server } from '../../../src/local-server/embedded.ts';
import { compareRows } from '../../../src/swap/online/compare-rows.ts';
import { planOnlineSwap, readCloneBirth } from '../../../src/swap/online/plan-online-swap.ts';
import { withClient } from '../../helpers/client.ts';
import { caughtUp, detach, follow, publish, runIn, urlOf, withSessionIn } from '../../helpers/following.ts';
import { ownServer } from '../../helpers/own-server.ts';
import { VERSIONS } from '../../helpers/servers.ts';

const COMPARED: readonly ServerVersion[] = [15, 18];
const SCHEMA = `
CREATE TABLE account (region text, id int, balance int, note text, PRIMARY KEY (region, id));
CREATE TABLE counter (id int PRIMARY KEY, value int);
CREATE TABLE event (what text);
INSERT INTO account SELECT (ARRAY['n', 's'])[1 + i % 2], i, 0, 'n' || i FROM generate_series(1, 20000) i;
INSERT INTO counter VALUES (1, 0), (2, 0);
INSERT INTO event SELECT 'e' || i FROM generate_series(1, 100) i;`;
const MIGRATION = [
  'ALTER TABLE account ALTER COLUMN balance TYPE bigint, ALTER COLUMN id TYPE bigint',
  "CREATE TYPE label AS ENUM ('x'); ALTER TABLE counter ADD COLUMN label label DEFAULT 'x'",
  'ALTER TABLE account RENAME COLUMN note TO remark',
];

/** Writes rows of all tables but those from 15,000 on, and one row with each statement. */
function writer(server: Server) {
  let [isStopping, transactions] = [false, 0];
  const ended = withClient(urlOf(server, 'target'), async (client) => {
    while (!isStopping) {
      transactions += 1;
      const id = 1 + (transactions % 15_000);
      await client.query(`UPDATE counter SET value = value + 1 WHERE id = 1`);
      await client.query(`UPDATE account SET balance = balance + 1, note = 'w' WHERE id = ${id}`);
      if (transactions % 5 === 0) await client.query(`DELETE FROM account WHERE id = ${id}`);
      if (transactions % 7 === 0)
        await client.query(`INSERT INTO account VALUES ('n', ${100_000 + transactions}, 1, 'new')`);
      await delay(1);
    }
  });
  return {
    written: () => transactions,
    stop: () => {
      isStopping = true;
      return ended;
    },
  };
}

describe.each(VERSIONS.filter((version) => COMPARED.includes(version)))('on PostgreSQL %d', (version) => {
  let server: Server;
  beforeAll(async () => {
    server = await ownServer(version, { settings: { wal_level: 'logical' } });
    await runIn(server, 'postgres', 'CREATE DATABASE target');
    await runIn(server, 'target', SCHEMA);
    await runIn(server, 'postgres', 'CREATE DATABASE clone TEMPLATE target');
  });
  afterAll(() => server?.stop());

  test('altered, deleted and extra rows are found by their keys while both are written, and no others', async () => {
    const inBoth = <T>(use: (...sessions: Parameters<typeof readCloneBirth>) => Promise<T>) =>
      withSessionIn(server, 'target', (target) =>
        withSessionIn(server, 'clone', (clone) => use(target, clone)),
      );
    const birth = await inBoth(readCloneBirth);
    await runIn(server, 'clone', MIGRATION);
    const verdict = await inBoth((target, clone) =>
      planOnlineSwap(target, clone, {
        birth,
        derivesRows: false,
        convertsByExpression: false,
        catchesUp: false,
      }),
    );
    if (!verdict.eligible) throw new Error(JSON.stringify(verdict.objections));
    const { plan } = verdict;
    await publish(server, 'target', plan);
    await follow(server, 'target', 'clone', plan);
    const writing = writer(server);
    const { signal } = new AbortController();
    const isApplied = async () => {
      await caughtUp(server, 'clone');
      return true;
    };
    const compare = () => inBoth((target, clone) => compareRows(target, clone, plan, { signal, isApplied }));
    try {
      await expect.poll(writing.written).toBeGreaterThan(200);
      for (let run = 0; run < 3; run++) {
        const { rows, differences } = await compare();
        expect(differences).toEqual([]);
        expect(rows).toBeGreaterThan(15_000);
      }
      await runIn(server, 'clone', [
        'UPDATE account SET balance = 7 WHERE id = 16000',
        'DELETE FROM account WHERE id = 17001',
        "INSERT INTO account VALUES ('z', 1, 1, 'extra')",
        'UPDATE counter SET value = 1 WHERE id = 2',
        "UPDATE event SET what = 'other' WHERE what = 'e7'",
      ]);
      const { differences } = await compare();
      expect([...differences].sort()).toEqual([
        '"public"."account" ("region", "id") = (n, 16000): other values in the clone',
        '"public"."account" ("region", "id") = (s, 17001): only in the target',
        '"public"."account" ("region", "id") = (z, 1): only in the clone',
        '"public"."counter" ("id") = (2): other values in the clone',
        '"public"."event" (no key): 100 rows in the target, 100 in the clone',
      ]);
    } finally {
      await writing.stop();
    }
    await caughtUp(server, 'clone');
    await detach(server, 'target', 'clone', plan);
  });
});
