import { describe, expect, test } from 'vitest';
import { encodeMessage, FLUSH, int32, query, SYNC } from '../../../src/postgres/protocol/messages.ts';
import { temporaryDatabase, withClient } from '../../helpers/database.ts';
import { bindFrames, executeFrame, parseFrame } from '../../helpers/frames.ts';
import { GUARDED, withProxy } from '../../helpers/proxy.ts';
import { RawClient } from '../../helpers/raw-client.ts';
import { OLDEST_AND_NEWEST, shareOf } from '../../helpers/servers.ts';

const SETUP = `
create table t (id int primary key, v text);
insert into t values (1, 'one'), (2, 'two');
create table child (id int primary key, t_id int references t deferrable initially deferred);
create procedure commits() language plpgsql as $$ begin insert into t values (100, 'p'); commit; end $$;
`;

/** What is sent, and the ReadyForQuery that follow from it. */
interface Conversation {
  readonly frames: readonly Buffer[];
  readonly readies: number;
}

const run = (sql: string, rows = 0) => [parseFrame('', sql), ...bindFrames('', ''), executeFrame('', rows)];
const describeStatement = (name: string) => encodeMessage('D'.charCodeAt(0), `S${name}\0`);
const closeStatement = (name: string) => encodeMessage('C'.charCodeAt(0), `S${name}\0`);
const closePortal = (name: string) => encodeMessage('C'.charCodeAt(0), `P${name}\0`);
const data = (text: string) => encodeMessage('d'.charCodeAt(0), text);
const copyDone = encodeMessage('c'.charCodeAt(0));
const copyFail = encodeMessage('f'.charCodeAt(0), 'enough\0');
/** int4 pg_backend_pid() would differ; OID 177 is int4pl. */
const functionCall = encodeMessage(
  'F'.charCodeAt(0),
  int32(177),
  Buffer.from([0, 0]),
  Buffer.from([0, 2]),
  ...['20', '22'].flatMap((text) => [int32(text.length), text]),
  Buffer.from([0, 0]),
);

const once = (...frames: Buffer[]): Conversation => ({ frames: [...frames, SYNC], readies: 1 });

const CONVERSATIONS: Record<string, Conversation> = {
  'one statement': once(...run('select * from t order by id')),
  DDL: once(...run('alter table t add w int')),
  'an empty text': once(...run('')),
  'two executions of one text': once(
    parseFrame('p', "insert into t values (7, 'x') on conflict do nothing"),
    ...bindFrames('', 'p'),
    executeFrame('', 0),
    ...bindFrames('', 'p'),
    executeFrame('', 0),
    closeStatement('p'),
  ),
  'a Parse that fails': once(...run('selec 1'), ...run('select 2')),
  'a Bind that fails': once(...run("select 'x'::int"), ...run('select 2')),
  'an Execute that fails': once(
    ...run('insert into t values (8)'),
    ...run('select 1/(id - 1) from t'),
    ...run('select 2'),
  ),
  'a missing statement': once(...bindFrames('', 'nosuch'), executeFrame('', 0)),
  'a missing portal': once(executeFrame('nosuch', 0)),
  'a failing commit': once(...run('insert into child values (1, 999)')),
  'a Sync alone': once(),
  'two Syncs': { frames: [SYNC, SYNC], readies: 2 },
  'a pipeline of several Syncs': {
    frames: [
      ...run("insert into t values (7, 'x')"),
      SYNC,
      ...run('selec'),
      ...run('select 1'),
      SYNC,
      ...run('select * from t order by 1'),
      SYNC,
    ],
    readies: 3,
  },
  'a transaction in one pipeline': once(
    ...run('begin'),
    ...run("insert into t values (7, 'x')"),
    ...run('create table n (i int)'),
    ...run('commit'),
    ...run('select 3'),
  ),
  'a transaction over several Syncs': {
    frames: [
      ...run('begin'),
      SYNC,
      ...run('create table n (i int)'),
      SYNC,
      ...run('select 1/0'),
      SYNC,
      ...run('select 1'),
      SYNC,
      ...run('rollback'),
      SYNC,
    ],
    readies: 5,
  },
  'a portal fetched in parts': once(
    parseFrame('', 'select * from generate_series(1, 5)'),
    ...bindFrames('c', ''),
    executeFrame('c', 2),
    executeFrame('c', 2),
    executeFrame('c', 2),
    closePortal('c'),
  ),
  'a portal left in the middle': once(
    parseFrame('', 'select * from t'),
    ...bindFrames('c', ''),
    executeFrame('c', 1),
  ),
  'a description only': once(parseFrame('d', 'select $1::int as a'), describeStatement('d')),
  VACUUM: once(...run('vacuum t')),
  'VACUUM behind another statement': once(...run('select 1'), ...run('vacuum t')),
  'CREATE INDEX CONCURRENTLY': once(...run('create index concurrently on t (v)')),
  'a procedure that commits': once(...run('call commits()')),
  'LOCK outside of a transaction': once(...run('lock table t')),
  'SET LOCAL': once(...run("set local work_mem = '1MB'")),
  'a setting': once(...run("set application_name = 'told'")),
  'copying out': once(...run('copy t to stdout')),
  'copying in': {
    frames: [...run('copy t from stdin'), FLUSH, data('5\tfive\n'), data('6\tsix\n'), copyDone, SYNC],
    readies: 1,
  },
  'copying in, given up': {
    frames: [...run('copy t from stdin'), FLUSH, data('5\tfive\n'), copyFail, SYNC],
    readies: 1,
  },
  'copying in by a Query': { frames: [query('copy t from stdin'), data('5\tfive\n'), copyDone], readies: 1 },
  'copying in by a Query, given up': {
    frames: [query('copy t from stdin'), data('5\tfive\n'), copyFail],
    readies: 1,
  },
  'copying in within a text': {
    frames: [query('create table n (i int); copy n from stdin; select * from n'), data('5\n'), copyDone],
    readies: 1,
  },
  'a function call': { frames: [functionCall], readies: 1 },
  'a Query behind messages without a Sync': { frames: [...run('select 1'), query('select 2')], readies: 1 },
  'Queries without waiting': {
    frames: [query('select 1'), query('create table n (i int)'), query('selec'), query('select 2')],
    readies: 4,
  },
};

const STATE =
  "select relname from pg_class where relnamespace = 'public'::regnamespace order by 1; select * from t order by 1";

async function answers(url: string, { frames, readies }: Conversation, send: 'at once' | 'byte by byte') {
  const client = await RawClient.connect(url);
  try {
    if (send === 'at once') client.send(...frames);
    else for (const byte of Buffer.concat([...frames])) client.upstream.socket.write(Buffer.from([byte]));
    const told = await client.until('Z', readies);
    told.push(...(await client.query('rollback')), ...(await client.query(STATE)));
    return told;
  } finally {
    await client.close();
  }
}

const WAYS = [
  ['exact', 'at once'],
  ['exact', 'byte by byte'],
  ['sampled', 'at once'],
  ['off', 'at once'],
  ['guarded', 'at once'],
  ['guarded', 'byte by byte'],
] as const;

/** How messages are cut, and what passes as it comes, differs in no version. */
const OBSERVED: ReadonlySet<string> = new Set(['exact', 'guarded']);

describe.each(OLDEST_AND_NEWEST)('on PostgreSQL %s, the extended protocol', (version) => {
  test.each(version === 19 ? WAYS : WAYS.filter(([how, send]) => OBSERVED.has(how) && send === 'at once'))(
    'gets the answers of a direct connection: %s, sent %s',
    async (how, send) => {
      const direct = await temporaryDatabase(version);
      const proxied = await temporaryDatabase(version);
      const anew = (url: string) =>
        withClient(url, (client) =>
          client.query(`drop schema public cascade; create schema public; ${SETUP}`),
        );
      const options = how === 'guarded' ? GUARDED : { observe: how };
      await withProxy(proxied.url, options, async ({ url }) => {
        for (const [name, conversation] of shareOf(version, Object.entries(CONVERSATIONS))) {
          await anew(direct.url);
          await anew(proxied.url);
          const expected = await answers(direct.url, conversation, 'at once');
          expect(await answers(url, conversation, send), name).toEqual(expected);
        }
      });
    },
    120_000,
  );
});
