import { LOCK_MODES, type LockMode } from '../postgres/lock-modes.ts';
import { fillIn, flag, grouped, type PlanOf } from '../settings.ts';
import { COUNT, choiceOf, DURATION, listOf, SECONDS, SIZE, SWITCH, type ValueType } from '../value-types.ts';
import { KNOWN_HAZARDS } from './catalogue.ts';

/** How long a lock mode may be held; a limit for a relation takes precedence over a general one. */
export interface LockLimit {
  readonly relation?: string;
  readonly mode: LockMode;
  readonly maxMs: number;
}

/** A hazard that the user allows. */
export interface Allowance {
  readonly code: string;
  readonly relation?: string;
  readonly reason: string;
  /** The last day of the allowance, `2027-01-31`. */
  readonly until?: string;
}

const HAZARD: ValueType<Allowance> = {
  parse: parseAllowance,
  parseObject: allowanceOf,
  format: ({ code, relation }) => (relation === undefined ? code : `${code}:${relation}`),
};

const LOCK: ValueType<LockLimit> = {
  parse: parseLockLimit,
  format: ({ relation, mode, maxMs }) =>
    `${relation === undefined ? '' : `${relation}:`}${mode}=${DURATION.format(maxMs)}`,
};

/** The rules that a rehearsal must keep to. */
export const POLICY_SETTINGS = grouped(
  { group: 'Policy' },
  {
    failOn: flag('--fail-on <severity>', choiceOf('error', 'warning'), {
      default: 'error',
      summary: 'what fails: error or warning',
      common: true,
    }),
    accept: flag('--accept <hazard>', listOf(HAZARD), {
      default: [],
      summary: 'accept a hazard: \'CODE[:relation]="reason"\'; repeatable',
      common: true,
    }),
    expect: flag('--expect <outcome>', choiceOf('changes', 'no-change'), {
      summary:
        'changes: fail if the command succeeds and changes nothing; no-change: fail if it would change schema or rows, as a check that the database has all that this code needs',
    }),
    requireProof: flag('--require-proof', SWITCH, {
      default: false,
      summary: 'fail unless it is proved that the target is unchanged',
    }),
    maxLocks: flag('--limit lock=<limit>', listOf(LOCK), {
      default: [],
      summary: "longest time a lock is held: '[relation:]ACCESS EXCLUSIVE=500ms'; repeatable",
    }),
    maxDurationMs: flag('--limit duration=<duration>', DURATION, {
      summary: 'longest time the command may take',
    }),
    maxWalBytes: flag('--limit wal=<size>', SIZE, {
      summary: 'most WAL the command may write',
    }),
    maxDiskBytes: flag('--limit disk=<size>', SIZE, {
      summary: 'most disk space the target may need at the peak, by the forecast',
    }),
    maxBlockedSecondsMs: flag('--limit blocked-seconds=<duration>', SECONDS, {
      summary: 'under load: longest time that all sessions together may wait behind the command',
      modes: ['rehearse', 'apply'],
    }),
    maxLatencyMs: flag('--limit latency=<duration>', DURATION, {
      summary: 'under load: latency that 95 % of the transactions may have while the command runs',
      modes: ['rehearse', 'apply'],
    }),
    maxFailures: flag('--limit failures=<count>', COUNT, {
      summary: 'under load: number of transactions that may fail',
      modes: ['rehearse', 'apply'],
    }),
  },
);

/** The rules of a rehearsal; null: there is no such rule. By default, hazards of severity `error` fail it. */
export type Policy = PlanOf<typeof POLICY_SETTINGS>;

export const DEFAULT_POLICY: Policy = fillIn(POLICY_SETTINGS, {});

/** `ACCESS EXCLUSIVE=500ms`, `public.orders:share=2s`: the mode in any case. */
export function parseLockLimit(value: string): LockLimit {
  const match = /^\s*(?:(.+):)?\s*([a-z][a-z -]*[a-z])\s*=\s*(.+?)\s*$/i.exec(value);
  const words = match?.[2]?.toUpperCase().replace(/[ -]+/g, ' ');
  const mode = LOCK_MODES.find((each) => each === words);
  if (!match || mode === undefined)
    throw new Error(
      `is "${value}", and is written like 'ACCESS EXCLUSIVE=500ms' or 'public.orders:SHARE=2s', ` +
        `with one of the modes ${LOCK_MODES.join(', ')}.`,
    );
  const relation = match[1]?.trim();
  return { mode, maxMs: DURATION.parse(match[3] ?? ''), ...(relation ? { relation } : {}) };
}

const EXAMPLE = 'INDEX_NOT_CONCURRENT:public.orders="agreed with ops" until=2027-01-31';
const ALLOWANCE = /^\s*([\w-]+)(?::((?:"[^"]*"|[^"=])+))?(?:=(.*?))?(?:\s+until=(\S+))?\s*$/s;

/** `CODE:relation="reason" until=2027-01-31`. The reason may lack its quotes, which a shell takes away. */
export function parseAllowance(value: string): Allowance {
  const match = ALLOWANCE.exec(value);
  if (!match) throw new Error(`is "${value}", and is written like '${EXAMPLE}'.`);
  const [, code, relation, text = '', until] = match;
  const reason = /^(["'])(.*)\1$/s.exec(text)?.[2] ?? text;
  return allowanceOf({
    code,
    reason,
    ...(relation === undefined ? {} : { relation: relation.trim() }),
    ...(until === undefined ? {} : { until }),
  });
}

const KEYS = ['code', 'relation', 'reason', 'until'];

/** @throws Error for the first thing that is wrong. */
function allowanceOf(value: Readonly<Record<string, unknown>>): Allowance {
  const stray = Object.keys(value).find((key) => !KEYS.includes(key));
  if (stray !== undefined) throw new Error(`has "${stray}", and can have ${KEYS.join(', ')}.`);
  const wrong = KEYS.find((key) => value[key] !== undefined && typeof value[key] !== 'string');
  if (wrong !== undefined) throw new Error(`has a ${wrong} that is no text.`);
  const { code = '', relation, reason = '', until } = value as Partial<Record<string, string>>;
  if (!KNOWN_HAZARDS.some((known) => known.code === code))
    throw new Error(`names "${code}", which is no hazard: \`safemigrate explain\` lists them.`);
  if (reason === '' || reason === '…')
    throw new Error(`accepts ${code} without a reason: write ${code}="…", for whoever reads it later.`);
  if (until !== undefined && !isDate(until))
    throw new Error(`has until=${until}, and that is a date like 2027-01-31.`);
  return {
    code,
    reason,
    ...(relation === undefined ? {} : { relation }),
    ...(until === undefined ? {} : { until }),
  };
}

function isDate(text: string): boolean {
  const date = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString().slice(0, 10) === text;
}
