import type * as Tree from 'libpg-query';
import { schemasOf } from '../../../model/search-paths.ts';
import type { Action } from '../../../model/statement-actions.ts';
import { constantOf, itemsOf, nameOfParts } from '../tree.ts';

/** Reads a SET or RESET of a setting that matters to hazards. */
export function setActions(tree: Tree.VariableSetStmt): Action[] {
  return tree.name === 'session_replication_role'
    ? replicationRole(tree)
    : [...lockTimeout(tree), ...searchPath(tree)];
}

function replicationRole({ args }: Tree.VariableSetStmt): Action[] {
  return constantOf(args?.[0])?.toLowerCase() === 'replica' ? [{ does: 'skip triggers' }] : [];
}

/** DISCARD ALL resets all settings. */
export const SETTINGS_RESET: Action[] = [
  { does: 'set lock_timeout', off: true, local: false },
  { does: 'set search_path', schemas: null, local: false },
];

function searchPath({ kind, name, args, is_local: isLocal }: Tree.VariableSetStmt): Action[] {
  if (kind !== 'VAR_RESET_ALL' && name?.toLowerCase() !== 'search_path') return [];
  const schemas = kind === 'VAR_SET_VALUE' ? (args ?? []).map((value) => constantOf(value) ?? '') : null;
  return [{ does: 'set search_path', schemas, local: isLocal ?? false }];
}

function lockTimeout({ kind, name, args, is_local: isLocal }: Tree.VariableSetStmt): Action[] {
  if (kind === 'VAR_RESET_ALL') return [{ does: 'set lock_timeout', off: true, local: false }];
  if (name !== 'lock_timeout') return [];
  return [timeoutOf(kind === 'VAR_SET_VALUE' ? args?.[0] : undefined, isLocal ?? false)];
}

/** Reads `SELECT set_config('lock_timeout', '5s', false)`; scripts of pg_dump set an empty search_path so. */
export function setConfigActions({ targetList }: Tree.SelectStmt): Action[] {
  return itemsOf<Tree.ResTarget>(targetList, 'ResTarget').flatMap(({ val }): Action[] => {
    if (!val || !('FuncCall' in val)) return [];
    const { funcname, args = [] } = val.FuncCall;
    if (nameOfParts(funcname).name !== 'set_config') return [];
    const local = constantOf(args[2]) === 'true';
    if (constantOf(args[0]) === 'lock_timeout') return [timeoutOf(args[1], local)];
    if (constantOf(args[0]) !== 'search_path') return [];
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
function timeoutOf(value: Tree.Node | undefined, local: boolean): Action {
  const [, number = '', unit = ''] = /^([\d.]+)\s*([a-z]*)$/.exec(constantOf(value) ?? '') ?? [];
  const ms = Number(number) * (UNITS[unit] ?? Number.NaN);
  const off = value === undefined || ms === 0;
  return off || number === '' || Number.isNaN(ms)
    ? { does: 'set lock_timeout', off, local }
    : { does: 'set lock_timeout', off, local, ms };
}
