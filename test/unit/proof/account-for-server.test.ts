import { describe, expect, test } from 'vitest';
import type { ServerAccounts, Visitor } from '../../../src/database/read-accounts.ts';
import type { TargetConnection } from '../../../src/model/report.ts';
import { accountForServer } from '../../../src/proof/account-for-server.ts';
import type { SeenCommand } from '../../../src/proof/attribute-changes.ts';
import { NO_CONTACTS, type SessionElsewhere } from '../../../src/proof/new-sessions.ts';
import type { TargetState } from '../../../src/proof/target-state.ts';

const TARGET = 16_384;
const OTHER = 5;
const START = '2026-11-21T10:00:00.000001+00:00';
const LATER = '2026-11-21T10:00:01.500001+00:00';

interface Given {
  sessions?: number;
  terminated?: number;
  terminatedHere?: number;
  rowsWritten?: number;
  walsenderBlocks?: number | null;
  resetAt?: string | null;
  visitors?: readonly Visitor[];
  configuredAt?: string;
  files?: Readonly<Record<string, string>>;
}

function state(given: Given): TargetState {
  const { sessions = 0, terminated = 0, terminatedHere = 0, resetAt = null, visitors = [] } = given;
  const { rowsWritten = 0, walsenderBlocks = 0 } = given;
  const accounts: ServerAccounts = {
    at: START,
    isCurrent: true,
    configuredAt: given.configuredAt ?? START,
    visitors,
    databases: new Map([
      [
        TARGET,
        { name: 'shop', sessions, ownSessions: 0, terminated: terminatedHere, rowsWritten: 0, resetAt: null },
      ],
      [OTHER, { name: 'crm', sessions, ownSessions: 0, terminated, rowsWritten, resetAt }],
    ]),
    walsenderBlocks,
    largeObjectRows: 0,
    sequenceAccesses: 0,
    prepared: 0,
    countsRows: true,
  };
  return {
    digest: 'gone',
    oid: TARGET,
    server: null,
    traffic: { unmeasured: '' },
    accounts,
    shared: { objects: new Map(), natures: new Map(), rows: new Map(), nextXid: 1, unread: [] },
    files: given.files === undefined ? null : new Map(Object.entries(given.files)),
  };
}

const NOTHING: SeenCommand = {
  ...NO_CONTACTS,
  reachedClone: true,
  madeDatabases: false,
  ownDatabases: [],
  mayReplicateUnseen: false,
  mayHaveDialled: true,
  ranUnseen: [],
  notKnown: null,
  mayActUnseen: false,
  leftRunning: [],
  transactions: [],
  cloneChanges: [],
  ranHiddenCode: false,
  confined: false,
  sandboxed: false,
  afterClone: [],
};

const account = (after: Given, seen: Partial<SeenCommand> = {}, start: Given = {}) => {
  const first = state(start);
  return accountForServer(
    { before: first, start: first, after: state(after) },
    { ...NOTHING, ...seen },
    TARGET,
  );
};

const visitor: Visitor = {
  pid: 77,
  database: OTHER,
  startedAt: LATER,
  client: { address: '10.0.0.7', port: 40_000 },
  isWalsender: false,
};

const session = (more: Partial<SessionElsewhere>): SessionElsewhere => ({
  key: `76 ${LATER}`,
  database: OTHER,
  name: 'crm',
  process: null,
  relay: null,
  isWalsender: false,
  ...more,
});

describe('sessions in other databases of the server', () => {
  test('that nobody saw leave the target unproved if this machine may have opened them', () => {
    expect(account({ sessions: 2 }).unproved).toEqual([
      '2 sessions came to other databases of the server (crm) while the command ran and ended before they were seen, ' +
        'and this machine may have opened them',
    ]);
    expect(account({ sessions: 2 }, { mayHaveDialled: false }).unproved).toEqual([]);
  });

  test('that were seen to be somebody else’s do not matter', () => {
    const elsewhere = [session({})];
    expect(account({ sessions: 2, visitors: [visitor] }, { elsewhere }).unproved).toEqual([]);
  });

  test('that the command opened by itself are named; those in databases that it made are not', () => {
    const elsewhere = [session({ process: 'node migrate.js' })];
    expect(account({ sessions: 1 }, { elsewhere }).unproved).toEqual([
      "node migrate.js connected to the database crm of the target's server by itself: that is no part of the rehearsal",
    ]);
    expect(account({ sessions: 1 }, { elsewhere, ownDatabases: ['crm'] }).unproved).toEqual([]);
  });

  test('of a service that accepts connections may be the command’s if rows were written, or if they are still there', () => {
    const elsewhere = [session({ relay: 'puma (pid 4)' })];
    expect(account({ sessions: 1 }, { elsewhere }).unproved).toEqual([]);
    const reason = [expect.stringContaining('through puma (pid 4)')];
    expect(account({ sessions: 1, rowsWritten: 1 }, { elsewhere }).unproved).toEqual(reason);
    const there = { ...visitor, pid: 76 };
    expect(account({ sessions: 1, visitors: [there] }, { elsewhere }).unproved).toEqual(reason);
  });

  test('for replication explain no other one: the server does not count them', () => {
    const elsewhere = [session({ isWalsender: true })];
    expect(account({ sessions: 1 }, { elsewhere }).unproved).toEqual([
      expect.stringContaining('1 session came'),
    ]);
  });

  test('are not known if the counters were reset', () => {
    expect(account({ resetAt: LATER }).unproved).toEqual([
      'the statistics of crm were reset while the command ran',
    ]);
  });
});

describe('what needs no session', () => {
  test('a statement that the server says it ran, and that nobody had read, is the command’s', () => {
    expect(account({}, { ranUnseen: ['ALTER SYSTEM'] }).changes).toEqual([
      {
        what: 'the server ran ALTER SYSTEM',
        madeBy: 'command',
        evidence: 'a session of the command got this answer',
      },
    ]);
  });

  test('sessions that were terminated leave the target unproved, except those that we ended', () => {
    expect(account({ terminated: 1 }).unproved).toEqual([
      '1 session in crm was terminated while the command ran, and nothing shows by whom',
    ]);
    const ended: TargetConnection = {
      process: { pid: 4, command: 'node migrate.js' },
      user: 'app',
      application: '',
      connectedAt: LATER,
      query: null,
      ended: true,
    };
    expect(account({ terminatedHere: 1 }, { targetConnections: [ended] }).unproved).toEqual([]);
  });

  test.each<[string, Given, string]>([
    ['a signal to the postmaster', { configuredAt: LATER }, 'the server read its configuration files again'],
    ['a file', { files: { '/data/pg_hba.conf': '2' } }, 'configuration file pg_hba.conf written'],
  ])('%s is a change by nobody knows whom, or by others if there were any', (_, after, what) => {
    const start = { files: { '/data/pg_hba.conf': '1' } };
    expect(account(after, {}, start).changes).toMatchObject([{ what, madeBy: 'unknown' }]);
    const others = [`1 ${LATER}`];
    expect(account(after, { others }, start).changes).toMatchObject([{ what, madeBy: 'unproved' }]);
  });

  test('a command in a sandbox can still write files, and do nothing else', () => {
    const after = { sessions: 3, terminated: 1, configuredAt: LATER, files: { '/data/pg_hba.conf': '2' } };
    const { changes, unproved } = account(after, { confined: true }, { files: { '/data/pg_hba.conf': '1' } });
    expect(changes.map(({ what }) => what)).toEqual(['configuration file pg_hba.conf written']);
    expect(unproved).toEqual([]);
  });
});

describe('a connection for replication over a Unix socket', () => {
  const open = { mayReplicateUnseen: true, mayHaveDialled: false };
  const walsender = { ...visitor, isWalsender: true };

  test('that nobody saw has used blocks', () => {
    expect(account({ walsenderBlocks: 9 }, open).untraced).toEqual([
      'a connection for replication was made while the command ran and ended before it was seen, and nothing shows by whom',
    ]);
    expect(account({ walsenderBlocks: 9 }, { ...open, mayReplicateUnseen: false }).untraced).toEqual([]);
  });

  test.each<[string, Given, Given]>([
    ['before version 16', { walsenderBlocks: null }, { walsenderBlocks: null }],
    ['where others replicate', { visitors: [walsender] }, { visitors: [walsender], walsenderBlocks: 9 }],
  ])('cannot be told from others’ %s: it matters if rows were written', (_, start, after) => {
    expect(account(after, open, start).untraced).toEqual([]);
    expect(account({ ...after, rowsWritten: 1 }, open, start).untraced).toEqual([
      expect.stringContaining('rows were written in crm'),
    ]);
  });
});

test('a connection of this machine that no session explains ends the proof', () => {
  expect(account({}, { stray: 1 }).untraced).toEqual([
    "1 connection of this machine to the target's server belongs to no session that was seen, and may have been for " +
      'replication, which the server does not count',
  ]);
  expect(account({}, { stray: 1, confined: true }).untraced).toEqual([]);
});
