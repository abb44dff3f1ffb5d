import { Client } from 'pg';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { withClient } from '../helpers/client.ts';
import { until } from '../helpers/cutting.ts';
import { PLACES } from '../helpers/online-places.ts';
import { disturbedSwap, endFollowing, type OnlineTarget, onlineTarget } from '../helpers/online-trials.ts';
import type { Decision } from '../helpers/relay.ts';
import { inThisShare } from '../helpers/share.ts';
import { inDatabase } from '../helpers/swapping.ts';

const timeout = 120_000;

async function ask({ url }: OnlineTarget, sql: string): Promise<Record<string, unknown>[]> {
  return (await withClient(url, (client) => client.query(sql))).rows;
}

async function cloneUrl(target: OnlineTarget): Promise<string> {
  const [row] = await ask(
    target,
    String.raw`SELECT datname FROM pg_database WHERE datname LIKE 'app\_rehearsal\_%'`,
  );
  return inDatabase(target.server.url, String(row?.datname));
}

/** From now on the clone applies no row of orders, until the session ends, which it does with the clone. */
async function holdApply(target: OnlineTarget): Promise<void> {
  const client = new Client({ connectionString: await cloneUrl(target) });
  client.on('error', () => {});
  await client.connect();
  await client.query('BEGIN; LOCK TABLE orders IN ACCESS EXCLUSIVE MODE');
}

describe('an online swap', () => {
  const target = onlineTarget(18);

  const terminated = [
    { kind: 'worker', name: 'catching up' },
    { kind: 'worker', name: 'closed for the cut-over' },
    { kind: 'walsender', name: 'comparing' },
    { kind: 'walsender', name: 'closed for the cut-over' },
  ] as const;
  test.each(inThisShare(terminated, ({ kind }) => kind))(
    'goes on after its $kind was terminated: $name',
    { timeout },
    async ({ kind, name }) => {
      let ended = 0;
      const swapped = await disturbedSwap(target(), {
        place: PLACES[name],
        disturb: async (): Promise<Decision> => {
          ended = await endFollowing(target(), kind);
          return 'forward';
        },
      });
      expect(swapped).toMatchObject({ exitCode: 0, swapped: true, swap: { outcome: 'swapped' } });
      expect(ended).toBe(1);
      // Whoever ends while the target is closed cannot come back before it is open again.
      const attempts = swapped.swap?.online.attempts ?? 0;
      if (name === 'closed for the cut-over') expect(attempts).toBeGreaterThan(1);
    },
  );

  test('has a way back although its first connection was broken, which stops a subscription', {
    timeout,
  }, async () => {
    const stopped = 'SELECT FROM pg_subscription WHERE NOT subenabled';
    const swapped = await disturbedSwap(target(), {
      place: [...PLACES.renamed, /^COMMENT ON DATABASE .*"state":"following"/],
      migration: 'ALTER TABLE orders ADD CHECK (amount >= 0)',
      wayBack: true,
      disturb: async (): Promise<Decision> => {
        await until('the original is stopped', async () => {
          await endFollowing(target(), 'walsender');
          return (await ask(target(), stopped)).length === 1;
        });
        return 'forward';
      },
    });
    expect(swapped).toMatchObject({ reached: true, exitCode: 0, swapped: true });
    expect(swapped.swap?.online.wayBack?.failure).toBeNull();
  });

  test('names a row that differs in the clone, and leaves the target as it is', { timeout }, async () => {
    let id = 0;
    const undone = await disturbedSwap(target(), {
      place: PLACES.comparing,
      disturb: async (): Promise<Decision> => {
        id = await withClient(await cloneUrl(target()), async (client) => {
          const { rows } = await client.query(
            "UPDATE events SET what = 'planted' WHERE id = (SELECT min(id) FROM events) RETURNING id",
          );
          return Number(rows[0]?.id);
        });
        return 'forward';
      },
    });
    expect(undone).toMatchObject({ exitCode: 4, swapped: false, left: [] });
    expect(undone.swap).toMatchObject({
      outcome: 'undone',
      reasons: [expect.stringContaining(`"public"."events" ("id") = (${id}): other values in the clone`)],
    });
  });

  const writeWal = async (segments: number) => {
    for (let written = 0; written < segments; written++)
      await ask(target(), "SELECT pg_logical_emit_message(false, 'test', ''), pg_switch_wal()");
  };

  const givenUp = [
    {
      what: 'the server keeps too much WAL for it',
      reason: /keeps .* of WAL for its replication slot, which is more than --limit kept-wal allows/,
      disturb: () => writeWal(5),
    },
    {
      what: 'the server no longer keeps the WAL that it needs',
      reason: /max_slot_wal_keep_size/,
      disturb: async () => {
        await ask(target(), "ALTER SYSTEM SET max_slot_wal_keep_size = '16MB'");
        await ask(target(), 'SELECT pg_reload_conf()');
        onTestFinished(async () => {
          await ask(target(), 'ALTER SYSTEM RESET max_slot_wal_keep_size');
          await ask(target(), 'SELECT pg_reload_conf()');
        });
        await writeWal(3);
      },
    },
    {
      what: 'somebody drops its slot',
      reason: /replication slot was dropped/,
      disturb: () =>
        until('the slot is dropped', async () => {
          await ask(target(), 'SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots');
          const drop = 'SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots';
          return ask(target(), drop).then(
            () => true,
            () => false,
          );
        }),
    },
  ];
  test.each(inThisShare(givenUp))('is given up if $what', { timeout }, async ({ disturb, reason }) => {
    const undone = await disturbedSwap(target(), {
      place: PLACES['catching up'],
      options: ['--limit', 'kept-wal=64MB'],
      disturb: async (): Promise<Decision> => {
        await holdApply(target());
        await disturb();
        return 'forward';
      },
    });
    expect(undone).toMatchObject({ reached: true, exitCode: 4, swapped: false, left: [] });
    expect(undone.swap).toMatchObject({ outcome: 'undone', reasons: [expect.stringMatching(reason)] });
  });
});

// Only 14 has no disable_on_error.
describe.each([14, 18] as const)('PostgreSQL %d, an online swap', (version) => {
  const target = onlineTarget(version);

  test('is given up if the clone cannot apply a row that a new constraint forbids', { timeout }, async () => {
    const undone = await disturbedSwap(target(), {
      place: PLACES.following,
      migration: "ALTER TABLE events ADD CHECK (what <> 'forbidden')",
      disturb: async (): Promise<Decision> => {
        await ask(target(), "INSERT INTO events (client, what) VALUES (99, 'forbidden')");
        await ask(target(), 'DELETE FROM events WHERE client = 99');
        return 'forward';
      },
    });
    expect(undone).toMatchObject({ reached: true, exitCode: 4, swapped: false, left: [] });
    expect(undone.swap).toMatchObject({
      outcome: 'undone',
      reasons: [expect.stringContaining('could not apply what production wrote')],
    });
  });
});

describe.each([14, 18] as const)('PostgreSQL %d, a role that is no superuser', (version) => {
  const target = onlineTarget(version);
  const trial = { user: 'owner:ownerpass', place: [], disturb: (): Decision => 'forward' };
  beforeAll(async () => {
    await ask(target(), "CREATE ROLE owner LOGIN CREATEDB PASSWORD 'ownerpass'");
    await ask(target(), 'ALTER DATABASE app OWNER TO owner');
    for (const name of ['orders', 'lines', 'events', 'markers'])
      await ask(target(), `ALTER TABLE ${name} OWNER TO owner`);
  });

  test('is told beforehand what it lacks for an online swap', { timeout }, async () => {
    const { exitCode, stdout, stderr } = await disturbedSwap(target(), trial);
    expect({ exitCode, said: `${stdout}${stderr}` }).toEqual({
      exitCode: 4,
      said: expect.stringMatching(
        version < 16
          ? /before PostgreSQL 16 only superusers may create subscriptions/
          : /GRANT pg_create_subscription TO .*owner.*ALTER ROLE .*owner.* REPLICATION;/s,
      ),
    });
  });

  // Before 16 only superusers may create subscriptions.
  if (version < 16) return;

  test('swaps online with what it needs', { timeout }, async () => {
    await ask(target(), 'GRANT pg_create_subscription TO owner');
    await ask(target(), 'ALTER ROLE owner REPLICATION');
    expect(await disturbedSwap(target(), trial)).toMatchObject({
      exitCode: 0,
      swapped: true,
      swap: { outcome: 'swapped', reasons: [] },
    });
  });
});
