import type * as Tree from 'libpg-query';
import { schemasOf } from '../../../model/search-paths.ts';
import type { Action } from '../../../model/statement-actions.ts';
import { constantOf, itemsOf, nameOfParts } from '../tree.ts';

/** Reads a SET or RESET of a setting that matters to hazards. */
export function setActions(tree: Tree.VariableSetStmt): Action[] {
  return tree.name === 'session_replication_role'
    ? replicationRole(tree)
    : [...timeouts(tree), ...searchPath(tree)];
}

function replicationRole({ args }: Tree.VariableSetStmt): Action[] {
  return constantOf(args?.[0])?.toLowerCase() === 'replica' ? [{ does: 'skip triggers' }] : [];
}

/** DISCARD ALL resets all settings. */
export const SETTINGS_RESET: Action[] = [
  { does: 'set lock_timeout', off: true, local: false },
  { does: 'set statement_timeout', off: true, local: false },
  { does: 'set search_path', schemas: null, local: false },
];

function searchPath({ kind, name, args, is_local: isLocal }: Tree.VariableSetStmt): Action[] {
  if (kind !== 'VAR_RESET_ALL' && name?.toLowerCase() !== 'search_path') return [];
  const schemas = kind === 'VAR_SET_VALUE' ? (args ?? []).map((value) => constantOf(value) ?? '') : null;
  return [{ does: 'set search_path', schemas, local: isLocal ?? false }];
}

type Timeout = 'lock_timeout' | 'statement_timeout';
const TIMEOUTS: readonly Timeout[] = ['lock_timeout', 'statement_timeout'];

function timeouts({ kind, name, args, is_local: isLocal }: Tree.VariableSetStmt): Action[] {
  if (kind === 'VAR_RESET_ALL') return TIMEOUTS.map((each) => timeoutAction(each, undefined, false));
  const value = kind === 'VAR_SET_VALUE' ? args?.[0] : undefined;
  return TIMEOUTS.filter((each) => each === name).map((each) => timeoutAction(each, value, isLocal ?? false));
}

/** Reads `SELECT set_config('lock_timeout', '5s', false)`; scripts of pg_dump set an empty search_path so. */
export function setConfigActions({ targetList }: Tree.SelectStmt): Action[] {
  return itemsOf<Tree.ResTarget>(targetList, 'ResTarget').flatMap(({ val }): Action[] => {
    if (!val || !('FuncCall' in val)) return [];
    const { funcname, args = [] } = val.FuncCall;
    if (nameOfParts(funcname).name !== 'set_config') return [];
    const local = constantOf(args[2]) === 'true';
    const setting = constantOf(args[0]);
    const timeout = TIMEOUTS.find((each) => each === setting);
    if (timeout) return [timeoutAction(timeout, args[1], local)];
    if (setting !== 'search_path') return [];
    return [{ does: 'set search_path', schemas: schemasOf(constantOf(args[1]) ?? ''), local }];
  });
}

/** Code sets a lock_timeout for what follows in it. */
export const OWN_TIMEOUT: Action = { does: 'set lock_timeout', off: false, local: true };

const SETS_TIMEOUT = /\block_timeout\b(?!'?\s*(?:=|\bto\b|,)\s*'?0\b)/i;

/** Tells if a body sets a lock_timeout. */
export function setsLockTimeout(body: string): boolean {
  return SETS_TIMEOUT.test(body);
}

const UNITS: Readonly<Record<string, number>> = {
  us: 0.001,
  '': 1,
  ms: 1,
  s: 1_000,
  min: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** @param value undefined: the default comes back. */
function timeoutAction(timeout: Timeout, value: Tree.Node | undefined, local: boolean): Action {
  const ms = timeoutMs(constantOf(value) ?? '');
  const off = value === undefined || ms === 0;
  const does = `set ${timeout}` as const;
  return off || ms === undefined ? { does, off, local } : { does, off, local, ms };
}

/** Milliseconds of a timeout as the server reads it, such as `5s`; undefined: it is none. */
export function timeoutMs(text: string): number | undefined {
  const [, number = '', unit = ''] = /^([\d.]+)\s*([a-z]*)$/.exec(text) ?? [];
  const ms = Number(number) * (UNITS[unit] ?? Number.NaN);
  return number === '' || Number.isNaN(ms) ? undefined : ms;
}
