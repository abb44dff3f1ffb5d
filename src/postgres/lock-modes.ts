import type { LockMode } from '../model/statement-actions.ts';

export type { LockMode } from '../model/statement-actions.ts';

/** The lock modes of relations, the weakest first; everything else is derived. */
export const LOCK_MODES = [
  'ACCESS SHARE',
  'ROW SHARE',
  'ROW EXCLUSIVE',
  'SHARE UPDATE EXCLUSIVE',
  'SHARE',
  'SHARE ROW EXCLUSIVE',
  'EXCLUSIVE',
  'ACCESS EXCLUSIVE',
] as const satisfies readonly LockMode[];

/** By mode: those that another transaction cannot get while it is held. */
const CONFLICTS: Readonly<Record<LockMode, readonly LockMode[]>> = {
  'ACCESS SHARE': ['ACCESS EXCLUSIVE'],
  'ROW SHARE': ['EXCLUSIVE', 'ACCESS EXCLUSIVE'],
  'ROW EXCLUSIVE': ['SHARE', 'SHARE ROW EXCLUSIVE', 'EXCLUSIVE', 'ACCESS EXCLUSIVE'],
  'SHARE UPDATE EXCLUSIVE': [
    'SHARE UPDATE EXCLUSIVE',
    'SHARE',
    'SHARE ROW EXCLUSIVE',
    'EXCLUSIVE',
    'ACCESS EXCLUSIVE',
  ],
  SHARE: ['ROW EXCLUSIVE', 'SHARE UPDATE EXCLUSIVE', 'SHARE ROW EXCLUSIVE', 'EXCLUSIVE', 'ACCESS EXCLUSIVE'],
  'SHARE ROW EXCLUSIVE': [
    'ROW EXCLUSIVE',
    'SHARE UPDATE EXCLUSIVE',
    'SHARE',
    'SHARE ROW EXCLUSIVE',
    'EXCLUSIVE',
    'ACCESS EXCLUSIVE',
  ],
  EXCLUSIVE: [
    'ROW SHARE',
    'ROW EXCLUSIVE',
    'SHARE UPDATE EXCLUSIVE',
    'SHARE',
    'SHARE ROW EXCLUSIVE',
    'EXCLUSIVE',
    'ACCESS EXCLUSIVE',
  ],
  'ACCESS EXCLUSIVE': [...LOCK_MODES],
};

/** Work of others, and the mode that it needs. */
const WORK = {
  reads: 'ACCESS SHARE',
  'row locks': 'ROW SHARE',
  writes: 'ROW EXCLUSIVE',
  vacuum: 'SHARE UPDATE EXCLUSIVE',
  DDL: 'ACCESS EXCLUSIVE',
} as const satisfies Readonly<Record<string, LockMode>>;

export type BlockedWork = keyof typeof WORK;

/** The modes that one transaction must wait for while another holds this one. */
export function conflictsOf(mode: LockMode): readonly LockMode[] {
  return CONFLICTS[mode];
}

/** Work that others cannot do while a transaction holds the mode: reads (SELECT), writes, vacuum, DDL, … */
export function blocks(mode: LockMode): BlockedWork[] {
  const works = Object.entries(WORK) as [BlockedWork, LockMode][];
  return works.filter(([, needed]) => CONFLICTS[mode].includes(needed)).map(([work]) => work);
}

/** `AccessExclusiveLock`, as pg_locks has it, to `ACCESS EXCLUSIVE`; undefined for what is no mode of relations. */
export function lockModeOf(pgLocksMode: string): LockMode | undefined {
  return BY_PG_LOCKS_NAME.get(pgLocksMode);
}

const BY_PG_LOCKS_NAME = new Map(LOCK_MODES.map((mode) => [pgLocksName(mode), mode]));

function pgLocksName(mode: LockMode): string {
  return `${mode.toLowerCase().replace(/(?:^| )(\w)/g, (_, letter: string) => letter.toUpperCase())}Lock`;
}

/** SQLSTATEs of statements that failed only because of locks of other sessions: later the same statement may succeed. */
const LOCK_FAILURES = { '55P03': 'lock-timeout', '40P01': 'deadlock' } as const;

export type LockFailure = (typeof LOCK_FAILURES)[keyof typeof LOCK_FAILURES];

/** Names the kind of lock failure that an SQLSTATE means; undefined if it means another one. */
export function lockFailureOf(sqlstate: string | undefined): LockFailure | undefined {
  return Object.entries(LOCK_FAILURES).find(([code]) => code === sqlstate)?.[1];
}
