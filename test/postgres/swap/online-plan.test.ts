import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ServerVersion } from '../../../src/local-server/binaries.ts';
import type { Server } from '../../../src/local-server/embedded.ts';
import { waitForCounters } from '../../../src/swap/database-state.ts';
import type { OnlineEligibility, OnlinePlan } from '../../../src/swap/online/online-plan.ts';
import { planOnlineSwap, readCloneBirth } from '../../../src/swap/online/plan-online-swap.ts';
import {
  caughtUp,
  contentOf,
  detach,
  follow,
  publish,
  runIn,
  withSessionIn,
} from '../../helpers/following.ts';
import { ONLINE_KINDS, type OnlineKind, SCHEMA, WRITES } from '../../helpers/online-kinds.ts';
import { ownServer } from '../../helpers/own-server.ts';
import { shareOf, VERSIONS } from '../../helpers/servers.ts';

const SETTINGS = {
  wal_level: 'logical',
  max_replication_slots: '10',
  max_wal_senders: '10',
  // Up to 15, the server starts one subscription in so long a time, by default 5 s.
  wal_retrieve_retry_interval: '100ms',
};
/** Each takes seconds: it is replicated, and done once more by stopping the world. */
function kindsOf(version: ServerVersion): readonly OnlineKind[] {
  const shared = ONLINE_KINDS.filter(({ since = 0 }) => since <= 18);
  const own = ONLINE_KINDS.filter(({ since = 0 }) => since > 18);
  return [...shareOf(version, shared, 8), ...own].filter(({ since = 0 }) => version >= since);
}

/** The catalogues of those between have nothing of their own here. */
const TRIED_ON = VERSIONS.filter((version) => version === 14 || version >= 18);

describe.each(TRIED_ON)('on PostgreSQL %d', (version) => {
  let server: Server;
  beforeAll(async () => {
    server = await ownServer(version, { settings: SETTINGS });
    await runIn(server, 'postgres', 'CREATE DATABASE base');
    await runIn(server, 'base', SCHEMA);
  });
  afterAll(() => server?.stop());

  let made = 0;
  /** Names of databases that no other test has. */
  const newNames = () => {
    made += 1;
    return { target: `target_${made}`, clone: `clone_${made}`, stopped: `stopped_${made}` };
  };
  type Names = ReturnType<typeof newNames>;

  /** Clones the target, runs the migration on the clone, and plans. */
  async function planFor(kind: OnlineKind, names: Names): Promise<OnlineEligibility> {
    await runIn(server, 'postgres', `CREATE DATABASE ${names.target} TEMPLATE base`);
    if (kind.setup !== undefined) await runIn(server, names.target, kind.setup);
    await runIn(server, 'postgres', `CREATE DATABASE ${names.clone} TEMPLATE ${names.target}`);
    const inBoth = <T>(use: (...sessions: Parameters<typeof readCloneBirth>) => Promise<T>) =>
      withSessionIn(server, names.target, (target) =>
        withSessionIn(server, names.clone, async (clone) => {
          for (const session of [target, clone]) await session.query(`SET ROLE ${kind.role ?? 'NONE'}`);
          return use(target, clone);
        }),
      );
    await counted();
    const birth = await inBoth(readCloneBirth);
    await runIn(server, names.clone, kind.migration);
    if (kind.meanwhile) await runIn(server, names.target, WRITES);
    await counted();
    const { derivesRows = false, convertsByExpression = false } = kind;
    const catchesUp = kind.catchUp !== undefined;
    return inBoth((target, clone) =>
      planOnlineSwap(target, clone, { birth, derivesRows, convertsByExpression, catchesUp }),
    );
  }

  const counted = () => waitForCounters(version * 10_000);
  const drop = ({ clone, stopped, target }: Names) =>
    runIn(
      server,
      'postgres',
      [clone, stopped, target].map((name) => `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`),
    );

  /** Follows the target as planned. @returns the content of the clone, and that of a target that is migrated after all writes. */
  async function outcomes(kind: OnlineKind, plan: OnlinePlan, { target, clone, stopped }: Names) {
    await publish(server, target, plan);
    await follow(server, target, clone, plan);
    await runIn(server, target, kind.writes ?? WRITES);
    await caughtUp(server, clone);
    for (const sql of kind.catchUp === undefined ? [] : [kind.catchUp, kind.catchUp])
      await runIn(server, clone, sql);
    await runIn(
      server,
      clone,
      plan.refresh.map((name) => `REFRESH MATERIALIZED VIEW ${name}`),
    );
    const orphans = await Promise.all(
      plan.newForeignKeys.map((key) => withSessionIn(server, clone, (session) => session.query(key.orphans))),
    );
    await runIn(server, clone, plan.raise);
    await detach(server, target, clone, plan);
    await runIn(server, 'postgres', `CREATE DATABASE ${stopped} TEMPLATE ${target}`);
    await runIn(server, stopped, kind.migration);
    return {
      clone: await contentOf(server, clone),
      stopped: await contentOf(server, stopped),
      orphans: orphans.flat(2),
    };
  }

  // Up to 14, each waits for the statistics collector most of the time: some of them wait together.
  const inTurn = version < 15 ? test.concurrent : test;
  inTurn.each(kindsOf(version))('$name: $verdict', async (kind) => {
    const names = newNames();
    try {
      const verdict = await planFor(kind, names);
      const isRefused = kind.verdict !== 'equal' || version <= (kind.refusedUpTo ?? 0);
      if (isRefused || !verdict.eligible) {
        const kinds = verdict.eligible ? [] : verdict.objections.map((objection) => objection.kind);
        const expected = kind.verdict === 'equal' ? 'dropped column' : kind.verdict;
        expect(verdict.eligible ? 'eligible' : verdict.objections).not.toBe('eligible');
        expect([...new Set(kinds)]).toEqual(isRefused ? [expected] : []);
        return;
      }
      const { clone, stopped, orphans } = await outcomes(kind, verdict.plan, names);
      expect(clone).toEqual(stopped);
      for (const found of orphans) expect(found).toEqual({ orphans: 0 });
    } finally {
      await drop(names);
    }
  });
});
