import { describe, expect, test } from 'vitest';
import { attributeChanges, type SeenCommand, type Suspects } from '../../../src/proof/attribute-changes.ts';
import { NO_CONTACTS } from '../../../src/proof/new-sessions.ts';
import type { TargetState } from '../../../src/proof/target-state.ts';

const state = (roles: Record<string, number>): TargetState => ({
  digest: 'gone',
  oid: 1,
  server: null,
  files: null,
  traffic: { unmeasured: '' },
  accounts: { unmeasured: '' },
  shared: {
    objects: new Map(Object.keys(roles).map((role) => [`role ${role}`, {}])),
    natures: new Map(),
    rows: new Map(Object.entries(roles).map(([role, xmin]) => [`role ${role}`, { '': xmin }])),
    nextXid: 100,
    unread: [],
  },
});

const SLOT = { kind: 'slot', database: null, file: null } as const;

const plain: SeenCommand = {
  ...NO_CONTACTS,
  reachedClone: true,
  madeDatabases: false,
  ownDatabases: [],
  mayReplicateUnseen: false,
  transactions: [],
  cloneChanges: [],
  ranHiddenCode: false,
  confined: false,
  sandboxed: false,
  afterClone: [],
  ranUnseen: [],
  notKnown: null,
  mayHaveDialled: false,
  mayActUnseen: false,
  leftRunning: [],
};
const busy: Suspects = { others: true, othersInTarget: true, noStranger: true };

/** Who made the role `late`, in transaction 107. */
function authorOf(command: Partial<SeenCommand>, suspects: Partial<Suspects>) {
  const before = state({});
  const states = { before, start: before, after: state({ late: 107 }) };
  const [change] = attributeChanges(states, [], { ...plain, ...command }, { ...busy, ...suspects });
  return change?.madeBy;
}

test('a role that came while the command ran only what cannot make one is others’, if every session is accounted for', () => {
  expect(authorOf({}, {})).toBe('others');
  expect(authorOf({}, { others: false })).toBe('others');
});

test.each<[string, Partial<SeenCommand>, Partial<Suspects>]>([
  ['the command ran code that no statement shows', { ranHiddenCode: true }, {}],
  ['a session came to the server that nobody saw', {}, { noStranger: false }],
])(
  'if %s, nothing proves whose it is: others’ activity is enough not to hold it against the command',
  (_, command, suspects) => {
    expect(authorOf(command, { ...suspects, others: true })).toBe('unproved');
    expect(authorOf(command, { ...suspects, others: false })).toBe('unknown');
  },
);

test('a transaction of the command’s is proof, however many others there are', () => {
  const authorOfChange = () => ({ madeBy: 'command' as const, evidence: '' });
  expect(authorOf({ transactions: [{ authorOf: authorOfChange }] }, {})).toBe('command');
});

test('what a script of --after-clone wrote before the command ran is ours, the rest is others’', () => {
  const start = state({ early: 103, other: 104 });
  const states = { before: state({}), start, after: start };
  expect(attributeChanges(states, [], { ...plain, afterClone: [103] }, busy)).toMatchObject([
    { what: 'role early created', madeBy: 'command', evidence: expect.stringContaining('--after-clone') },
    { what: 'role other created', madeBy: 'others' },
  ]);
});

describe('what needs no session that the server counts', () => {
  const before = state({});
  const authors = (object: string, suspects: Suspects, confined = false) => {
    const kind = object.startsWith('setting') ? ('setting' as const) : ('slot' as const);
    const shared = {
      ...before.shared,
      objects: new Map([[object, { value: '1' }]]),
      natures: new Map([[object, { kind, database: null, file: null }]]),
    };
    const after = { ...before, shared };
    const command = { ...plain, confined };
    return attributeChanges({ before, start: before, after }, [], command, suspects).map(
      (each) => each.madeBy,
    );
  };

  test.each(['setting work_mem in postgresql.auto.conf', 'replication slot sneaky'])('%s', (object) => {
    expect(authors(object, busy)).toEqual(['unproved']);
    expect(authors(object, { ...busy, others: false })).toEqual(['unknown']);
  });

  test('a sandboxed command can write files, and reaches no server', () => {
    expect(authors('setting work_mem in postgresql.auto.conf', busy, true)).toEqual(['unproved']);
    expect(authors('replication slot sneaky', busy, true)).toEqual(['others']);
  });
});

test('a dropped slot is for a person to look at, also beside others; a subscription drops those that copied a table', () => {
  const slots = (...names: string[]): TargetState => ({
    ...state({}),
    shared: {
      ...state({}).shared,
      objects: new Map(names.map((name) => [`replication slot ${name}`, {}])),
      natures: new Map(names.map((name) => [`replication slot ${name}`, SLOT])),
    },
  });
  const before = slots('standby', 'pg_16400_sync_16385_7300000000000000000');
  const authors = (confined: boolean) =>
    attributeChanges({ before, start: before, after: slots() }, [], { ...plain, confined }, busy).map(
      ({ what, madeBy }) => [what.split(' ')[2], madeBy],
    );
  expect(authors(false)).toEqual([
    ['pg_16400_sync_16385_7300000000000000000', 'unproved'],
    ['standby', 'unknown'],
  ]);
  expect(authors(true).map(([, madeBy]) => madeBy)).toEqual(['others', 'others']);
});

describe('a schema change while the command ran', () => {
  const at = (sum: string): TargetState => ({
    ...state({}),
    digest: { catalogues: { pg_class: { rows: 1, sum } }, unread: [] },
  });
  const [before, after] = [at('1'), at('2')];
  const author = (suspects: Partial<Suspects>, command: Partial<SeenCommand> = {}) =>
    attributeChanges(
      { before, start: before, after },
      [],
      { ...plain, ...command },
      { ...busy, ...suspects },
    )[0]?.madeBy;

  test('is others’ only if one of them had a session in the target', () => {
    expect(author({})).toBe('others');
    expect(author({ othersInTarget: false })).toBe('unproved');
    expect(author({ othersInTarget: false, others: false })).toBe('unknown');
  });

  test('is others’ if the command could not reach the target, whatever it did on the clone', () => {
    const suspects = { othersInTarget: false, others: false };
    expect(author(suspects, { confined: true, reachedClone: false })).toBe('others');
  });
});
