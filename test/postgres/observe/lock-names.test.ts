import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type TemporaryDatabase, temporaryDatabase, withClient } from '../../helpers/database.ts';
import { HOLDING } from '../../helpers/lock-corpus.ts';
import {
  heldInTransaction,
  lockDatabase,
  reportedLocks,
  WAYS,
  wrongLocks,
} from '../../helpers/lock-names.ts';
import { pending } from '../../helpers/pending.ts';
import { OLDEST_AND_NEWEST } from '../../helpers/servers.ts';

/** Of the corpus that soak/lock-names.test.ts tries in full: each way gets some statements, and no statement two ways. */
const EVERY = 30;
/** The table is gone with its session, and its name with it. */
const LOST = /^create temp /;

const AWAITED = `select l.relation::regclass || ' ' || l.mode as awaited from pg_locks l
  where l.locktype = 'relation' and not l.granted and l.database = (select oid from pg_database where datname = current_database())`;

/** From PostgreSQL's documentation and sources. */
const BY_RULE: readonly (readonly [sql: string, locks: readonly string[]])[] = [
  ['create index concurrently made on t (n)', ['public.t SHARE UPDATE EXCLUSIVE']],
  [
    'drop index concurrently t_v',
    ['public.t SHARE UPDATE EXCLUSIVE', 'public.t_v SHARE UPDATE EXCLUSIVE', 'public.t_v ACCESS EXCLUSIVE'],
  ],
  ['drop index concurrently apart.t_n', ['apart.t SHARE UPDATE EXCLUSIVE', 'apart.t_n ACCESS EXCLUSIVE']],
  [
    'set search_path = apart; reindex index concurrently t_n',
    ['apart.t SHARE UPDATE EXCLUSIVE', 'apart.t_n ACCESS EXCLUSIVE'],
  ],
  [
    'alter table parted detach partition parted_2 concurrently',
    [
      'public.parted SHARE UPDATE EXCLUSIVE',
      'public.parted_2 SHARE UPDATE EXCLUSIVE',
      'public.parted_2 ACCESS EXCLUSIVE',
      'public.parted_2_at_idx ACCESS EXCLUSIVE',
    ],
  ],
  [
    'reindex table parted',
    [
      'public.parted SHARE',
      'public.parted_1 SHARE',
      'public.parted_1_at_idx ACCESS EXCLUSIVE',
      'public.parted_2 SHARE',
      'public.parted_2_at_idx ACCESS EXCLUSIVE',
    ],
  ],
  ['vacuum t', ['public.t SHARE UPDATE EXCLUSIVE', 'public.t_v ROW EXCLUSIVE']],
  ['vacuum full t', ['public.t ACCESS EXCLUSIVE', 'public.t_v ACCESS EXCLUSIVE']],
];

describe.each(OLDEST_AND_NEWEST)('on PostgreSQL %d', (version) => {
  let template: TemporaryDatabase;
  beforeAll(async () => {
    template = await lockDatabase(version);
  });
  afterAll(() => template.drop());

  test.each(Object.entries(WAYS).map((way, at) => [...way, at] as const))(
    'locks have the names that pg_locks shows: %s',
    async (_, send, at) => {
      const wrong: string[] = [];
      for (const sql of HOLDING.filter(
        (sql, index) => !LOST.test(sql) && index % EVERY === at * 5 + (version % 5),
      )) {
        const expected = await heldInTransaction(template, sql);
        const reported = expected && (await reportedLocks(template, sql, send));
        if (reported && reported.exactness !== 'sampled')
          wrong.push(...wrongLocks.all(expected, reported.locks ?? []).map((each) => `${sql}: ${each}`));
      }
      expect(wrong).toEqual([]);
    },
    60_000,
  );

  test.each(BY_RULE)(
    'locks that are gone when the statement ends are listed by rule: %s',
    async (sql, locks) => {
      const reported = await reportedLocks(template, sql, (url, text) =>
        withClient(url, async (client) => {
          for (const each of text.split('; ')) await client.query(each);
        }),
      );
      expect(reported).toMatchObject({ exactness: 'sampled', locks: expect.arrayContaining([...locks]) });
    },
  );

  test('DETACH CONCURRENTLY waits for ACCESS EXCLUSIVE on the partition at its end', async () => {
    const copy = await temporaryDatabase(version, { template: template.name });
    await withClient(copy.url, (reader) =>
      withClient(copy.url, async (direct) => {
        await reader.query('begin; lock table parted_2 in access share mode');
        const done = pending(direct.query('alter table parted detach partition parted_2 concurrently'));
        await expect
          .poll(async () => (await reader.query(AWAITED)).rows, { timeout: 60_000 })
          .toEqual([{ awaited: 'parted_2 AccessExclusiveLock' }]);
        await reader.query('commit');
        await done;
      }),
    );
    await copy.drop();
  });
});
