import { describe, expect, test } from 'vitest';
import type { ServerAccounts, Visitor } from '../../../src/database/read-accounts.ts';
import type { RelationCounters, TrafficReading } from '../../../src/database/traffic.ts';
import type { TargetConnection } from '../../../src/model/report.ts';
import { accountForSessions } from '../../../src/proof/account-for-sessions.ts';
import { type Contacts, NO_CONTACTS } from '../../../src/proof/new-sessions.ts';
import type { TargetState } from '../../../src/proof/target-state.ts';

const TARGET = 16_384;
const OTHER = 5;
const START = '2026-11-21T10:00:00.000001+00:00';
const LATER = '2026-11-21T10:00:01.500001+00:00';

interface Given {
  sessions?: number;
  own?: number;
  elsewhere?: number;
  inserted?: number;
  visitors?: readonly Visitor[];
  accounts?: Partial<ServerAccounts>;
}

function state({
  sessions = 0,
  own = 0,
  elsewhere = 0,
  inserted = 0,
  visitors = [],
  accounts,
}: Given): TargetState {
  const jobs: RelationCounters = {
    scans: 0,
    inserted,
    updated: 0,
    deleted: 0,
    partitionOf: null,
    countedSinceMs: null,
  };
  return {
    digest: 'gone',
    oid: TARGET,
    server: null,
    files: null,
    shared: { objects: new Map(), natures: new Map(), rows: new Map(), nextXid: 1, unread: [] },
    traffic: { relations: new Map([['public.jobs', jobs]]) } as unknown as TrafficReading,
    accounts: {
      at: START,
      isCurrent: true,
      configuredAt: START,
      visitors,
      databases: new Map([
        [TARGET, { name: 'shop', sessions, ownSessions: own, terminated: 0, rowsWritten: 0, resetAt: null }],
        [
          OTHER,
          {
            name: 'postgres',
            sessions: elsewhere,
            ownSessions: 0,
            terminated: 0,
            rowsWritten: 0,
            resetAt: null,
          },
        ],
      ]),
      walsenderBlocks: 0,
      largeObjectRows: 0,
      sequenceAccesses: 0,
      prepared: 0,
      countsRows: true,
      ...accounts,
    },
  };
}

interface Run {
  before?: Given;
  start?: Given;
  after?: Given;
  others?: readonly string[];
  contacts?: readonly TargetConnection[];
  confined?: boolean;
  met?: Partial<Pick<Contacts, 'relayed' | 'doubtful' | 'walsenders'>>;
}

function account({
  before = {},
  start = {},
  after = {},
  others = [],
  contacts = [],
  confined = false,
  met = {},
}: Run) {
  const states = { before: state(before), start: state(start), after: state(after) };
  return accountForSessions(
    states,
    { ...NO_CONTACTS, targetConnections: contacts, others, ownDatabases: [], confined, ...met },
    TARGET,
  );
}

const visitor = (startedAt: string, address: string | null = '10.0.0.7', database = TARGET): Visitor => ({
  pid: 77,
  database,
  startedAt,
  client: address === null ? null : { address, port: 40_000 },
  isWalsender: false,
});

const contact: TargetConnection = {
  process: { pid: 4, command: 'node migrate.js' },
  user: 'app',
  application: '',
  connectedAt: LATER,
  query: null,
  ended: true,
};

describe('the sessions that came to the target', () => {
  test('are all explained if only we came: the target is proved unchanged', () => {
    const { sessions, unproved, changes } = account({ after: { sessions: 2, own: 2 } });
    expect(sessions).toEqual({ ours: 2, command: 0, others: 0, unexplained: 0 });
    expect({ unproved, changes }).toEqual({ unproved: [], changes: [] });
  });

  test('are explained if the others were seen, while the command ran or at the end', () => {
    const { sessions, unproved } = account({
      after: {
        sessions: 4,
        own: 1,
        inserted: 50,
        visitors: [visitor(LATER), visitor('2026-11-21T09:00:00+00:00')],
      },
      others: [`78 ${LATER}`, `77 ${LATER}`, `79 ${LATER}`],
    });
    expect(sessions).toEqual({ ours: 1, command: 0, others: 3, unexplained: 0 });
    expect(unproved).toEqual([]);
  });

  test('are not explained by somebody over a Unix socket, whose origin is hidden', () => {
    const { sessions } = account({ after: { sessions: 1, visitors: [visitor(LATER, null)] } });
    expect(sessions?.unexplained).toBe(1);
  });

  test('leave the target unproved if one was counted and not seen, in one line', () => {
    const { unproved, changes } = account({ after: { sessions: 3, own: 1 } });
    expect(unproved).toEqual([
      "2 sessions came to the target while the command ran and ended before they were seen: the target's counters show no " +
        'written row, but not whose they were',
    ]);
    expect(changes).toEqual([]);
  });

  test('are all somebody else’s if the command could not connect to the server', () => {
    const { sessions, unproved, changes } = account({
      after: { sessions: 9, own: 1, inserted: 5 },
      confined: true,
    });
    expect(sessions).toEqual({ ours: 1, command: 0, others: 8, unexplained: 0 });
    expect({ unproved, changes }).toEqual({ unproved: [], changes: [] });
    const unknown = account({ after: { accounts: { isCurrent: false } }, confined: true });
    expect(unknown).toMatchObject({ sessions: null, unproved: [], changes: [] });
  });

  test.each<[string, Partial<ServerAccounts>]>([
    ['are not current', { isCurrent: false }],
    [
      'were reset',
      {
        databases: new Map([
          [
            TARGET,
            { name: 'shop', sessions: 9, ownSessions: 0, terminated: 0, rowsWritten: 0, resetAt: 'now' },
          ],
        ]),
      },
    ],
    ['do not have the target', { databases: new Map() }],
  ])('are not known if the counters %s', (_, accounts) => {
    const { sessions, unproved } = account({ after: { accounts } });
    expect(sessions).toBeNull();
    expect(unproved).toEqual([expect.stringContaining('is not known')]);
  });
});

describe('rows that were written while a session came that nobody saw', () => {
  const unseen: Given = { sessions: 1, inserted: 3 };

  test('are a change of unknown author if nobody else was on the server', () => {
    const { changes, unproved } = account({ after: unseen });
    expect(changes).toEqual([
      {
        what: 'rows were written (3 of public.jobs)',
        madeBy: 'unknown',
        evidence: expect.stringContaining('no other session was connected'),
      },
    ]);
    expect(unproved).toEqual([]);
  });

  test.each<[string, Run]>([
    ['was in the target all the time', { start: { visitors: [visitor(START)] }, after: unseen }],
    ['is in another database', { after: { ...unseen, visitors: [visitor(START, '10.0.0.7', OTHER)] } }],
    ['was seen meanwhile', { after: { ...unseen, sessions: 2 }, others: [`78 ${LATER}`] }],
    ['came to another database before the command ran', { start: { elsewhere: 1 }, after: unseen }],
  ])('are nobody’s in particular if somebody else %s: not proved', (_, run) => {
    const { changes, unproved } = account(run);
    expect(changes).toEqual([]);
    expect(unproved).toEqual([
      expect.stringContaining('rows were written (3 of public.jobs), perhaps by others'),
    ]);
  });
});

describe('a session of the command’s on the target', () => {
  test('that wrote nothing leaves it unchanged', () => {
    const { sessions, changes, unproved } = account({ after: { sessions: 1 }, contacts: [contact] });
    expect(sessions).toEqual({ ours: 0, command: 1, others: 0, unexplained: 0 });
    expect({ changes, unproved }).toEqual({ changes: [], unproved: [] });
  });

  test('wrote what was written if nobody else was there', () => {
    const { changes } = account({ after: { sessions: 1, inserted: 1 }, contacts: [contact] });
    expect(changes).toMatchObject([{ what: 'rows were written (1 of public.jobs)', madeBy: 'command' }]);
  });

  test.each<[string, Given]>([
    ['others were there', { inserted: 1, visitors: [visitor(START)] }],
    ['rows are not counted', { accounts: { countsRows: false } }],
    ['a transaction was prepared', { accounts: { prepared: 1 } }],
    ['a sequence was used', { visitors: [visitor(START)], accounts: { sequenceAccesses: 1 } }],
  ])('may have written if %s, and a person must look', (_, after) => {
    const { changes } = account({ after: { sessions: 1, ...after }, contacts: [contact] });
    expect(changes).toMatchObject([{ madeBy: 'unknown' }]);
  });
});

describe('rows that were written while no session came that the server counts', () => {
  const written: Given = { inserted: 3 };

  test('are a change of unknown author if nobody else was on the server', () => {
    expect(account({ after: written }).changes).toMatchObject([{ madeBy: 'unknown' }]);
  });

  test('are not proved to be others’ who work in other databases', () => {
    const elsewhere = [visitor(START, '10.0.0.7', OTHER)];
    const { changes, unproved } = account({ after: { ...written, visitors: elsewhere } });
    expect(changes).toEqual([]);
    expect(unproved).toEqual([expect.stringContaining('no session was in the target that is known')]);
  });

  test('are others’ who were there all the time', () => {
    const { changes, unproved, othersInTarget } = account({
      start: { visitors: [visitor(START)] },
      after: { ...written, visitors: [visitor(START)] },
    });
    expect({ changes, unproved, othersInTarget }).toEqual({
      changes: [],
      unproved: [],
      othersInTarget: true,
    });
  });
});

describe('a session whose author is doubted', () => {
  const key = `77 ${LATER}`;
  const there: Given = { sessions: 1, visitors: [visitor(LATER)] };

  test('is unexplained, though it is still there at the end', () => {
    const doubtful = [{ key, who: 'app, psql: its process was started while the command ran' }];
    const { sessions, unproved } = account({ after: there, met: { doubtful } });
    expect(sessions).toEqual({ ours: 0, command: 0, others: 0, unexplained: 1 });
    expect(unproved).toEqual([expect.stringContaining('app, psql: its process was started')]);
  });

  test('is nobody’s for replication: the server counts none', () => {
    const doubtful = [{ key, who: 'app, psql: it uses a Unix socket' }];
    const { sessions } = account({ met: { doubtful, walsenders: [key] } });
    expect(sessions?.unexplained).toBe(1);
  });

  test('for replication does not hide another one that the server counts', () => {
    const { sessions } = account({ after: { sessions: 1 }, others: [key], met: { walsenders: [key] } });
    expect(sessions).toEqual({ ours: 0, command: 0, others: 1, unexplained: 1 });
  });
});

describe('a session of a process that accepts connections', () => {
  const key = `77 ${LATER}`;
  const relayed = (isOlder: boolean) => [{ key, process: 'pgbouncer (pid 9)', isOlder }];

  test('is somebody else’s if nothing was written and it has left', () => {
    const { sessions, unproved } = account({ after: { sessions: 1 }, met: { relayed: relayed(false) } });
    expect(sessions).toMatchObject({ others: 1, unexplained: 0 });
    expect(unproved).toEqual([]);
  });

  test.each<[string, Given, boolean]>([
    ['something was written', { sessions: 1, inserted: 1 }, false],
    ['something was written and it was there before', { inserted: 1, visitors: [visitor(LATER)] }, true],
    [
      'it is still there, and its rows may not be counted yet',
      { sessions: 1, visitors: [visitor(LATER)] },
      false,
    ],
  ])('may have worked for the command if %s, whoever else is there', (_, after, isOlder) => {
    const { changes, unproved, othersInTarget } = account({
      start: { visitors: [visitor(START)] },
      after,
      met: { relayed: relayed(isOlder) },
    });
    expect(changes).toEqual([]);
    expect(unproved).toEqual([expect.stringContaining('through pgbouncer (pid 9)')]);
    expect(othersInTarget).toBe(false);
  });
});
