import type { Name } from '../model/statement-actions.ts';
import { FIRST_USER_OID } from '../postgres/catalogue/user-objects.ts';
import {
  ACTS_ON_SERVER,
  NAMES_OF_SETTINGS_BEYOND,
  SHARED_CATALOGUES,
  TOUCHES_FILES,
} from '../postgres/sql/kinds/cluster-objects.ts';

/** Something that acts beyond the clone, in words for a refusal. */
export interface ServerCall {
  readonly what: string;
  readonly why: string;
  readonly leaves: 'database' | 'server';
}

/** A function of the clone, as names in statements find it. */
export interface KnownFunction {
  /** null: in any schema. */
  readonly schema: string | null;
  readonly name: string;
  readonly oid?: number;
  readonly minArgs: number;
  readonly maxArgs: number;
  /** null: a function of the user's own that only has such a name. */
  readonly call: ServerCall | null;
}

interface KnownRelation {
  readonly schema: string | null;
  readonly name: string;
  /** `read`: a view. `write`: triggers, defaults, checks or rules run code. */
  readonly on: 'read' | 'write';
  /** null: nothing, any more. */
  readonly call: ServerCall | null;
}

/** `f()`, or `f(), which runs pg_switch_wal()`: what is in between would not help anybody. */
export function throughName(name: string, call: ServerCall): ServerCall {
  const last = call.what.replace(/^.*, which runs /, '');
  return last === `${name}()` ? call : { ...call, what: `${name}(), which runs ${last}` };
}

/** The schema in which PostgreSQL looks before all others, unless the search path names it. */
const FIRST = 'pg_catalog';
/** FirstNormalObjectId: objects of users have this OID or a higher one. */
export const ANY_ARGUMENTS = { minArgs: 0, maxArgs: Number.POSITIVE_INFINITY };

/**
 * The names through which a statement would act beyond the clone: functions that do so by themselves, and functions, views and
 * tables of the user's that run such a function.
 */
export class ServerCalls {
  readonly #functions = new Map<string, KnownFunction[]>();
  readonly #relations = new Map<string, KnownRelation[]>();
  readonly #byOid = new Map<number, ServerCall>();
  /** Queries of PREPARE, by the names that EXECUTE uses. */
  readonly #prepared = new Map<string, unknown>();
  #learned: KnownFunction[] = [];
  #learnedCall: ServerCall | undefined;
  #pattern: RegExp | undefined;

  constructor() {
    for (const [name, { why, leaves, extension }] of SERVER_FUNCTIONS) {
      const schema = extension === null ? FIRST : null;
      this.addFunction({ schema, name, ...ANY_ARGUMENTS, call: { what: `${name}()`, why, leaves } });
    }
    this.setRelation({
      schema: FIRST,
      name: 'pg_settings',
      on: 'write',
      call: { what: 'a change of pg_settings', why: 'it may change any setting', leaves: 'server' },
    });
    const why = 'all databases of the server share it';
    for (const name of SHARED_CATALOGUES)
      this.setRelation({
        schema: FIRST,
        name,
        on: 'write',
        call: { what: `a change of ${name}`, why, leaves: 'database' },
      });
  }

  /** Adds a function. It replaces what was known of its name in its schema, except overloads of a built-in one. */
  addFunction(known: KnownFunction): void {
    const others = (this.#functions.get(known.name) ?? []).filter(
      ({ schema, oid }) => schema !== known.schema || (schema === FIRST && oid !== undefined),
    );
    this.#functions.set(known.name, [...others, known]);
    if (known.oid !== undefined && known.call)
      this.#byOid.set(known.oid, throughName(known.name, known.call));
    this.#pattern = undefined;
  }

  /** Adds a function of the command's. It may replace one that others run: see takeLearned(). */
  learnFunction(known: KnownFunction & { readonly oid?: never }): void {
    this.addFunction(known);
    if (!known.call) return;
    this.#learned.push(known);
    this.#learnedCall = throughName(known.name, known.call);
  }

  /** Returns the functions that were learned since the last time, and act beyond the clone. */
  takeLearned(): readonly KnownFunction[] {
    const learned = this.#learned;
    this.#learned = [];
    return learned;
  }

  prepare(name: string, query: unknown): void {
    this.#prepared.set(name, query);
  }

  prepared(name: string): unknown {
    return this.#prepared.get(name);
  }

  /** Adds what reading or writing a relation does, or replaces it. */
  setRelation(known: KnownRelation): void {
    const others = (this.#relations.get(known.name) ?? []).filter(
      ({ schema, on }) => schema !== known.schema || on !== known.on,
    );
    this.#relations.set(known.name, [...others, known]);
    this.#pattern = undefined;
  }

  /** Tells if a text contains one of the names, or may contain one by its code points. Only such a text needs to be searched. */
  mentions(text: string): boolean {
    this.#pattern ??= patternOf([
      ...this.#functions.keys(),
      ...this.#relations.keys(),
      ...NAMES_OF_SETTINGS_BEYOND,
    ]);
    return this.#pattern.test(text);
  }

  /** Returns what a call does beyond the clone; undefined if nothing. */
  called({ schema, name }: Name, args: number | undefined): ServerCall | undefined {
    const alike = (this.#functions.get(name) ?? []).filter(
      ({ minArgs, maxArgs }) => args === undefined || (args >= minArgs && args <= maxArgs),
    );
    const named =
      schema === null
        ? (alike.find((each) => each.schema === FIRST) ?? alike.find((each) => each.schema !== null))
        : alike.find((each) => each.schema === schema);
    const found = named ?? alike.find((each) => each.schema === null);
    return found?.call ?? undefined;
  }

  /**
   * Returns what the function with this OID does beyond the clone; undefined if nothing. One of the user's may be any of those
   * that the command made, whose OIDs no other session sees before the commit.
   */
  calledByOid(oid: number): ServerCall | undefined {
    return this.#byOid.get(oid) ?? (oid >= FIRST_USER_OID ? this.#learnedCall : undefined);
  }

  /** Returns what reading or writing a relation does beyond the clone; undefined if nothing. */
  relation({ schema, name }: Name, on: 'read' | 'write'): ServerCall | undefined {
    const alike = (this.#relations.get(name) ?? []).filter((each) => each.on === on);
    const found = alike.findLast((each) => schema === null || each.schema === null || each.schema === schema);
    return found?.call ?? undefined;
  }

  /** Returns the first function that a text names outside of comments, for a text that cannot be parsed. */
  named(text: string): ServerCall | undefined {
    for (const [word] of text.matchAll(/[\w$\u0080-\uffff]+/g)) {
      const call = this.called({ schema: null, name: word.toLowerCase() }, undefined);
      if (call) return call;
    }
    return undefined;
  }
}

function patternOf(names: readonly string[]): RegExp {
  const escaped = names.map((name) => name.replace(/[^\w]/g, '\\$&'));
  // U&"…" may spell any name.
  return new RegExp(`(?<![\\w$])(?:${escaped.join('|')})(?![\\w$])|u&["']`, 'i');
}

const CONNECTS = 'it opens a connection of its own, to any server';

const BUILT_IN: Readonly<Record<string, readonly string[]>> = {
  [ACTS_ON_SERVER]: [
    ...['pg_reload_conf', 'pg_rotate_logfile', 'pg_rotate_logfile_old', 'pg_promote', 'pg_switch_wal'],
    ...['pg_create_restore_point', 'pg_log_standby_snapshot', 'pg_wal_replay_pause', 'pg_wal_replay_resume'],
    ...['pg_backup_start', 'pg_backup_stop', 'pg_start_backup', 'pg_stop_backup'],
    ...['pg_create_physical_replication_slot', 'pg_create_logical_replication_slot'],
    ...['pg_copy_physical_replication_slot', 'pg_copy_logical_replication_slot'],
    ...['pg_drop_replication_slot', 'pg_replication_slot_advance', 'pg_sync_replication_slots'],
    ...['pg_logical_slot_get_changes', 'pg_logical_slot_get_binary_changes'],
    ...['pg_replication_origin_create', 'pg_replication_origin_drop', 'pg_replication_origin_advance'],
    ...['pg_replication_origin_session_setup', 'binary_upgrade_replorigin_advance'],
    'pg_stop_making_pinned_objects',
  ],
  'it resets statistics of the whole server': [
    ...['pg_stat_reset_shared', 'pg_stat_reset_slru', 'pg_stat_reset_replication_slot'],
    ...['pg_stat_reset_subscription_stats', 'pg_stat_reset_backend_stats'],
  ],
  "it may end the target's sessions": ['pg_terminate_backend'],
  "it may cancel statements of the target's sessions": ['pg_cancel_backend'],
  "it interrupts other sessions, among them the target's": ['pg_log_backend_memory_contexts'],
  [TOUCHES_FILES]: ['lo_import', 'lo_export', 'pg_read_file', 'pg_read_file_old', 'pg_read_binary_file'],
};

const OF_EXTENSIONS: Readonly<Record<string, readonly [why: string, names: readonly string[]]>> = {
  adminpack: [TOUCHES_FILES, ['pg_file_write', 'pg_file_sync', 'pg_file_rename', 'pg_file_unlink']],
  dblink: [
    CONNECTS,
    ['dblink', 'dblink_connect', 'dblink_connect_u', 'dblink_exec', 'dblink_open', 'dblink_send_query'],
  ],
  http: [CONNECTS, ['http', 'http_get', 'http_post', 'http_put', 'http_patch', 'http_delete', 'http_head']],
  pg_prewarm: [ACTS_ON_SERVER, ['autoprewarm_start_worker', 'autoprewarm_dump_now']],
  pg_stat_statements: ['it resets the statistics of every database', ['pg_stat_statements_reset']],
  pg_buffercache: [
    ACTS_ON_SERVER,
    ['pg_buffercache_evict', 'pg_buffercache_evict_relation', 'pg_buffercache_evict_all'],
  ],
};

/**
 * Functions that act beyond the database of their session, by name. pg_logical_emit_message() is not one: only slots of the
 * session's own database decode what it writes.
 */
export const SERVER_FUNCTIONS: ReadonlyMap<string, ReturnType<typeof describe>[number][1]> = new Map([
  ...Object.entries(BUILT_IN).flatMap(([why, names]) => describe(why, names, null)),
  ...Object.entries(OF_EXTENSIONS).flatMap(([extension, [why, names]]) => describe(why, names, extension)),
]);

/** @param extension to which they belong; null: they are built in, in pg_catalog. */
function describe(why: string, names: readonly string[], extension: string | null) {
  const leaves: ServerCall['leaves'] = why === TOUCHES_FILES || why === CONNECTS ? 'server' : 'database';
  return names.map((name) => [name, { why, leaves, extension }] as const);
}
