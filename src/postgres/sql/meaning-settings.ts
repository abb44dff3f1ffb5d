import type * as Tree from 'libpg-query';
import { fieldsIf, isQuery } from './classify-statement.ts';
import { SessionStates } from './session-states.ts';
import { constantOf, type Node, nameOfParts, nodesWithin } from './tree.ts';

/** Settings for time, planning, the log and messages, which never decide what a statement does. */
const WITHOUT_EFFECT = [
  ...['application_name', 'client_min_messages', 'log_\\w+', 'track_\\w+', 'debug_p\\w+', 'tcp_\\w+'],
  ...['\\w+_timeout', 'work_mem', 'maintenance_work_mem', 'logical_decoding_work_mem', 'hash_mem_multiplier'],
  ...[
    'temp_buffers',
    'enable_\\w+',
    '\\w+_cost',
    '\\w+_cost_(?:delay|limit)',
    'jit(?:_\\w+)?',
    'geqo(?:_\\w+)?',
  ],
  ...[
    '\\w+_collapse_limit',
    'max_parallel_\\w+',
    'min_parallel_\\w+',
    'parallel_\\w+',
    'force_parallel_mode',
  ],
  ...['effective_\\w+', 'maintenance_io_concurrency', 'plan_cache_mode', 'cursor_tuple_fraction'],
  ...[
    'constraint_exclusion',
    'default_statistics_target',
    'synchronous_commit',
    'commit_delay',
    'commit_siblings',
  ],
  ...['wal_compression', 'backend_flush_after', 'vacuum_\\w+', 'autovacuum\\w*', 'exit_on_error'],
];
const HAS_NO_EFFECT = new RegExp(`^(?:${WITHOUT_EFFECT.join('|')})$`, 'i');

/** Tells if a setting may give a statement another meaning: other relations, another role, other triggers, other values. */
export function decidesMeaning(name: string): boolean {
  return !HAS_NO_EFFECT.test(name);
}

/** Tells if an extension or an application made up the setting. */
export function isCustomSetting(name: string): boolean {
  return name.includes('.');
}

interface Change {
  readonly name: string;
  /** null: the value with which the session began. */
  readonly value: string | null;
  /** The setting ends with its transaction. */
  readonly local: boolean;
}

/** Values by the names of settings, in lower case. */
type Values = ReadonlyMap<string, string>;

interface SettingsState {
  /** Values that last beyond the transaction. */
  readonly lasting: Values;
  /** Values now. */
  readonly current: Values;
}

const UNCHANGED: SettingsState = { lasting: new Map(), current: new Map() };

/**
 * The settings of each session that may give its statements another meaning, after each SET, RESET, set_config() and DISCARD ALL.
 * Custom settings are left out.
 */
export class MeaningSettings {
  readonly #states = new SessionStates<SettingsState>({
    initial: UNCHANGED,
    committed: ({ lasting }) => ({ lasting, current: lasting }),
    rolledBack: (_, before) => before,
  });

  /** Takes every statement in its order; `node` is null if it could not be parsed. */
  take(session: number, node: Node | null): void {
    if (!node) return;
    this.#states.follow(session, node);
    for (const change of changesBy(node))
      this.#states.set(session, change === 'all' ? UNCHANGED : changed(this.#states.of(session), change));
  }

  /** Returns the values of the settings that were set, by their names. */
  of(session: number): Values {
    return this.#states.of(session).current;
  }
}

function changed({ lasting, current }: SettingsState, change: Change): SettingsState {
  return {
    lasting: change.local ? lasting : withChange(lasting, change),
    current: withChange(current, change),
  };
}

function withChange(values: Values, { name, value }: Change): Values {
  const all = new Map(values);
  if (value === null) all.delete(name);
  else all.set(name, value);
  return all;
}

function changesBy(node: Node): (Change | 'all')[] {
  const discarded = fieldsIf(node, 'DiscardStmt');
  if (discarded) return discarded.target === undefined || discarded.target === 'DISCARD_ALL' ? ['all'] : [];
  const set = fieldsIf(node, 'VariableSetStmt');
  const changes = set
    ? [changeOf(set)]
    : isQuery(node)
      ? nodesWithin(node, 'FuncCall').map(changeByCall)
      : [];
  return changes.filter((change) => change !== undefined).filter(isDeciding);
}

function isDeciding(change: Change | 'all'): boolean {
  return change === 'all' || (decidesMeaning(change.name) && !isCustomSetting(change.name));
}

function changeOf({
  kind,
  name = '',
  args,
  is_local: local = false,
}: Tree.VariableSetStmt): Change | 'all' | undefined {
  if (kind === 'VAR_RESET_ALL') return 'all';
  // SET TRANSACTION, whose settings end with it.
  if (kind === 'VAR_SET_MULTI') return undefined;
  const isReset = kind === 'VAR_RESET' || kind === 'VAR_SET_DEFAULT';
  return { name: name.toLowerCase(), value: isReset ? null : (args ?? []).map(textOf).join(', '), local };
}

/** Reads the arguments of set_config(name, value, is_local). A computed name may be the name of any setting. */
function changeByCall({ funcname, args = [] }: Tree.FuncCall): Change | undefined {
  if (nameOfParts(funcname).name !== 'set_config') return undefined;
  const [name, value, local] = args;
  return {
    name: constantOf(name)?.toLowerCase() ?? '(any)',
    value: value === undefined ? '' : textOf(value),
    local: constantOf(local) === 'true',
  };
}

/** Writes a value as text; an expression as the parser's tree. */
function textOf(value: Tree.Node): string {
  return constantOf(value) ?? JSON.stringify(value, (key, part) => (key === 'location' ? undefined : part));
}
