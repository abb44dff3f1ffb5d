import type { Allowance, LockLimit, Policy } from '../hazards/policy.ts';
import { KNOWN_HAZARDS } from '../hazards/registry.ts';
import { LOCK_MODES } from '../postgres/lock-modes.ts';
import { listOption, oneOfValues, option, parseDuration, parseSize } from './values.ts';

/** What a rehearsal has to keep to, as options. */
export const POLICY_OPTIONS = {
  failOn: option(
    '--fail-on <severity>',
    'do not pass with hazards of this severity or a graver one: error, warning',
    oneOfValues('error', 'warning'),
    { default: 'error' },
  ),
  allow: {
    ...listOption(
      '--allow <hazard>',
      'let a hazard pass: \'CODE[:relation] reason="…" [until=2027-01-31]\'; repeatable',
      parseAllowance,
    ),
    parseObject: (value: Readonly<Record<string, unknown>>) => [allowanceOf(value)],
  },
  maxLock: listOption(
    '--max-lock <limit>',
    "for how long a lock may be held: '[relation:]ACCESS EXCLUSIVE=500ms'; repeatable",
    parseLockLimit,
  ),
  maxDuration: option('--max-duration <duration>', 'how long the command may take', parseDuration),
  maxWal: option('--max-wal <size>', 'how much WAL the command may write', parseSize),
  maxDisk: option(
    '--max-disk <size>',
    'how much disk space the target may need at the peak, by the forecast',
    parseSize,
  ),
};

type PolicyValues = { [K in keyof typeof POLICY_OPTIONS]?: ReturnType<(typeof POLICY_OPTIONS)[K]['parse']> };

/** The core's names say the units. */
export function policyOf(values: PolicyValues): Partial<Policy> {
  const { failOn, allow, maxLock: maxLocks, maxDuration, maxWal, maxDisk } = values;
  return {
    ...(failOn === undefined ? {} : { failOn }),
    ...(allow === undefined ? {} : { allow }),
    ...(maxLocks === undefined ? {} : { maxLocks }),
    ...(maxDuration === undefined ? {} : { maxDurationMs: maxDuration }),
    ...(maxWal === undefined ? {} : { maxWalBytes: maxWal }),
    ...(maxDisk === undefined ? {} : { maxDiskBytes: maxDisk }),
  };
}

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
  return { mode, maxMs: parseDuration(match[3] ?? ''), ...(relation ? { relation } : {}) };
}

const EXAMPLE = 'INDEX_BLOCKS_WRITES:public.orders reason="agreed with ops" until=2027-01-31';
const WORD = String.raw`(?:reason|until)\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"']\S*)`;
const ALLOWANCE = new RegExp(`^\\s*([\\w-]+)(?::(.+?))?((?:\\s+${WORD})*)\\s*$`);

/** `CODE:relation reason="…" until=2027-01-31`. */
export function parseAllowance(value: string): Allowance {
  const match = ALLOWANCE.exec(value);
  if (!match) throw new Error(`is "${value}", and is written like '${EXAMPLE}'.`);
  const words = [...(match[3] ?? '').matchAll(/(reason|until)\s*=\s*(?:"([^"]*)"|'([^']*)'|(\S+))/g)];
  const given = words.map(([, key = '', ...forms]) => [key, forms.find((form) => form !== undefined)]);
  const relation = match[2]?.trim();
  return allowanceOf({ code: match[1], ...(relation ? { relation } : {}), ...Object.fromEntries(given) });
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
    throw new Error(`allows ${code} without a reason: add reason="…", for whoever reads it later.`);
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
