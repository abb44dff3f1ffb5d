import { randomBytes } from 'node:crypto';
import type { Server } from 'node:net';
import { type CommandLogin, planRoutes, type Route, upstreamOf } from '../command/rewrite.ts';
import type { TargetStandIn } from '../command/sandbox/target-stand-in.ts';
import type { Emit } from '../events.ts';
import type { Caveat, DataSection, StatementSection, TransactionSection } from '../model/report.ts';
import type { StatementFacts } from '../model/statement-actions.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import type { Session } from '../postgres/connection/session.ts';
import { settingsAtStart } from '../postgres/protocol/startup-settings.ts';
import { timeoutMs } from '../postgres/sql/kinds/setting-actions.ts';
import { parseText } from '../postgres/sql/parse.ts';
import { OwnTransactions } from '../proof/shared-changes.ts';
import type { Gate, Observe, Observed, Observer } from '../proxy/observed.ts';
import { type ProxyOptions, startProxy, type WireProxy } from '../proxy/proxy.ts';
import type { Scope } from '../scope.ts';
import { LockReader } from './locks.ts';
import { releasedCaveats, withLocksByRule } from './locks-by-rule.ts';
import { readBodies, withBodies } from './locks-in-bodies.ts';
import { namesOf, type RelationTree, tablesOfIndexes } from './relation-names.ts';
import { withRewrites } from './rewritten-relations.ts';
import { withRolledBack } from './rolled-back.ts';
import { Sampler, SlowStatements } from './sampler.ts';
import { statementFacts } from './statement-facts.ts';
import {
  SAMPLED_CAVEAT,
  type SentText,
  STATEMENT_CAVEATS,
  StatementLog,
  UNREAD_CAVEAT,
} from './statements.ts';

export interface CommandWatchOptions {
  /** Logins that the command knows; the first is the target's own. */
  readonly logins: readonly CommandLogin[];
  /** Leads to the clone, as the target's own user. */
  readonly clone: ConnectionSettings;
  /** Every login works there; else the clone's own is taken for all. */
  readonly sharesRoles: boolean;
  readonly cloneOid: number;
  /** Version of the clone's server; missing: not known. */
  readonly serverVersionNum?: number;
  readonly guard: Gate;
  readonly observe: Observe;
  /** Address to listen on; default: this machine alone. */
  readonly listen?: string;
  /** Listens already, in the command's sandbox; instead of `listen`. */
  readonly listener?: Server | undefined;
  /** Replaces the target there: the command connects to it. */
  readonly standIn?: TargetStandIn | null;
  /** Leads to a database of the server that the command may look into besides its own. */
  readonly otherDatabase: (name: string) => boolean;
  /** Opens a session of ours outside the clone. */
  readonly connect: (purpose: string) => Promise<Session>;
  /** Settings that the command's sessions begin with, where it says nothing of them. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Gets everything that the proxy sees, beside those that are at home here. */
  readonly observer?: Observer;
  readonly emit: Emit;
}

/** The proxy between the command and the clone, and what it saw. */
export interface CommandWatch {
  /** The proxy, under the names that the command knows. */
  readonly routes: readonly Route[];
  /** The command connected at least once. */
  reached(): boolean;
  /** A client left because the proxy speaks without TLS. */
  leftForTls(): boolean;
  /** A client left because it does not trust the certificate of the run. */
  leftForTrust(): boolean;
  /** Roles that the command logged in with, whose passwords were not tried. */
  untriedPasswords(): string[];
  /** Ends what the command may have left connected; it may come again. */
  disconnect(): Promise<void>;
  /** Ends what the command may have left connected, and our own connections for looking at it. Idempotent. */
  end(): Promise<void>;
  /** OIDs of the clone's relations that were locked. */
  lockedRelations(): Set<number>;
  /** It sent a CALL or DO, whose procedures are to be read. */
  ranCode(): boolean;
  /** A statement failed, or a part of the command was rolled back. */
  rolledBack(): boolean;
  /** The sessions so far. */
  sessions(): readonly SessionStart[];
  /** Its transactions, for telling what it wrote from what others wrote. */
  readonly transactions: OwnTransactions;
  /** Returns what the command sent, once it has ended. */
  statements(known: KnownRelations): Promise<SeenStatements>;
}

/** Facts about the relations of the command's database. */
export interface KnownRelations {
  readonly tree: RelationTree;
  /** Which of them have another file than before; missing: not known. */
  readonly data?: DataSection | null;
  /** OIDs of those that the command made: no session waits for their locks. */
  readonly made?: ReadonlySet<number>;
  /** The CREATE PROCEDURE of those that the database has after the command. */
  readonly procedures?: readonly string[];
  /** Path of sessions that set none. */
  readonly searchPath?: readonly string[];
}

export interface SeenStatements {
  readonly statements: StatementSection[];
  readonly transactions: TransactionSection[];
  /** By the index of the statement. */
  readonly parsed: ReadonlyMap<number, StatementFacts>;
  /** Sessions that began with a lock_timeout: of PGOPTIONS, of the URL, or set by the driver. */
  readonly sessionsWithLockTimeout: ReadonlySet<number>;
  /** The statement_timeout that a session began with. */
  readonly statementTimeouts: ReadonlyMap<number, number>;
  readonly sessionsOfPsql: ReadonlySet<number>;
  /** By the index of the statement. */
  readonly sent: ReadonlyMap<number, SentText>;
  readonly sessions: ReadonlyMap<number, SessionStart>;
  readonly caveats: Caveat[];
}

/** How the command began a session. */
export type SessionStart = Pick<Extract<Observed, { type: 'session' }>, 'user' | 'database' | 'parameters'>;

/** Long enough that it cannot be guessed on this machine; characters that need no escape in any URL. */
const SECRET_BYTES = 24;

/** Starts the proxy, and what listens to it. The scope ends all of it. */
export async function watchCommand(scope: Scope, options: CommandWatchOptions): Promise<CommandWatch> {
  const seen = await openObservers(scope, options);
  const secret = randomBytes(SECRET_BYTES).toString('base64url');
  const routes = planRoutes(options.logins, options);
  // Its loading would otherwise count as time of the command's first statement.
  await parseText(Buffer.from('SELECT 1'));
  const proxy = await scope.own(
    'proxy',
    () => startProxy(proxyOptions(options, seen, routes, secret)),
    async (started) => started?.close(),
  );
  return {
    routes: routes.map((route) => ({ ...route, entry: entryOf(route, proxy, secret, options.standIn) })),
    reached: () => proxy.sessions > 0,
    leftForTls: () => proxy.leftForTls,
    leftForTrust: () => proxy.leftForTrust,
    untriedPasswords: () => [...proxy.untriedPasswords],
    disconnect: () => proxy.disconnect(),
    end: async () => {
      await proxy.close();
      await seen.close();
    },
    lockedRelations: () => seen.log.relations(options.cloneOid),
    ranCode: () => seen.log.ranCode,
    rolledBack: () => seen.log.rolledBack,
    sessions: () => [...seen.sessions.values()],
    transactions: seen.transactions,
    statements: (known) => statementsOf(seen, options, known),
  };
}

/** All that listens to the proxy. */
type Observers = Awaited<ReturnType<typeof openObservers>>;

async function openObservers(scope: Scope, { connect, observe, observer, emit }: CommandWatchOptions) {
  const log = new StatementLog();
  const slow = new SlowStatements(emit);
  const transactions = new OwnTransactions();
  const sessions = new Map<number, SessionStart>();
  const reader = new LockReader(() => connect('locks'));
  const sampler = new Sampler(
    () => connect('sampler'),
    (sample) => {
      log.sample(sample.statement, sample.locks);
      slow.sample(sample);
    },
  );
  const close = async () => {
    await sampler.close();
    await reader.close();
  };
  await scope.own(
    'lock reader',
    async () => {
      if (observe === 'exact') await reader.open();
    },
    close,
  );
  return {
    log,
    reader,
    transactions,
    sessions,
    close,
    observe: (event: Observed) => {
      transactions.observe(event);
      log.observe(event);
      if (event.type === 'session') sessions.set(event.session, event);
      sampler.observe(event);
      observer?.(event);
    },
  };
}

function proxyOptions(
  options: CommandWatchOptions,
  seen: Observers,
  routes: readonly Route[],
  secret: string,
): ProxyOptions {
  const { observe, guard, settings, listen, listener, standIn, otherDatabase, serverVersionNum } = options;
  return {
    routes,
    secret,
    observe,
    gate: guard,
    observer: seen.observe,
    readLocks: seen.reader.read,
    ...(settings === undefined ? {} : { settings }),
    ...(serverVersionNum === undefined ? {} : { serverVersionNum }),
    ...(listen === undefined ? {} : { listen: { host: listen } }),
    listener,
    ...(standIn ? { inPlaceOfTarget: standIn, otherRole: upstreamOf(options) } : {}),
    otherDatabase: (name, upstream) => (otherDatabase(name) ? { ...upstream, database: name } : undefined),
  };
}

async function statementsOf(
  { log, sessions }: Observers,
  { observe, cloneOid }: CommandWatchOptions,
  { tree, data = null, made = new Set(), searchPath = ['public'], procedures = [] }: KnownRelations,
): Promise<SeenStatements> {
  if (observe === 'off') return NOTHING_SEEN;
  const seen = log.section(cloneOid, namesOf(tree), made);
  const parsed = await statementFacts(seen);
  const bodies = await readBodies(seen, parsed, procedures, searchPath);
  const rules = { parsed, tree, made, searchPath, bodies };
  const transactions = log.transactions();
  const section = withRolledBack(withLocksByRule(seen, rules), transactions, parsed);
  const statements = withTables(withRewrites(section, parsed, data), tree);
  return {
    statements,
    transactions,
    parsed: withBodies(parsed, bodies),
    sessionsWithLockTimeout: thoseWith(sessions, asksForLockTimeout),
    statementTimeouts: statementTimeouts(sessions),
    sessionsOfPsql: thoseWith(sessions, isPsql),
    sent: log.sent(),
    sessions,
    caveats: [
      ...(statements.length > 0 ? STATEMENT_CAVEATS : []),
      ...(statements.some(({ exactness }) => exactness === 'sampled') ? [SAMPLED_CAVEAT] : []),
      ...releasedCaveats(statements, rules),
      ...log.caveats,
      ...(log.hasUnread ? [UNREAD_CAVEAT] : []),
    ],
  };
}

/** Names the table beside each lock on an index: sessions that use the table wait for it. */
function withTables(statements: readonly StatementSection[], tree: RelationTree): StatementSection[] {
  const tables = tablesOfIndexes(tree);
  return statements.map(({ locks, ...statement }) => ({
    ...statement,
    locks:
      locks?.map((lock) => {
        const indexOf = tables.get(lock.relation);
        return indexOf === undefined ? lock : { ...lock, indexOf };
      }) ?? null,
  }));
}

const NOT_OBSERVED: Caveat = {
  path: 'statements',
  kind: 'unmeasured',
  reason: 'statements were not observed (SAFEMIGRATE_OBSERVE=off)',
};

const NOTHING_SEEN: SeenStatements = {
  statements: [],
  transactions: [],
  parsed: new Map(),
  sessionsWithLockTimeout: new Set(),
  statementTimeouts: new Map(),
  sessionsOfPsql: new Set(),
  sent: new Map(),
  sessions: new Map(),
  caveats: [NOT_OBSERVED],
};

type Parameters = readonly (readonly [name: string, value: string])[];

function thoseWith(
  sessions: ReadonlyMap<number, SessionStart>,
  has: (parameters: Parameters) => boolean,
): ReadonlySet<number> {
  return new Set([...sessions].filter(([, { parameters }]) => has(parameters)).map(([session]) => session));
}

/** By the name that psql gives its sessions unless PGAPPNAME has another. */
function isPsql(parameters: Parameters): boolean {
  return parameters.some(([name, value]) => name === 'application_name' && value === 'psql');
}

function asksForLockTimeout(parameters: Parameters): boolean {
  return settingsAtStart(parameters).some(
    ([name, value]) => name === 'lock_timeout' && !/^'?0[a-z]*'?$/i.test(value),
  );
}

function statementTimeouts(sessions: ReadonlyMap<number, SessionStart>): ReadonlyMap<number, number> {
  const found = new Map<number, number>();
  for (const [session, { parameters }] of sessions)
    for (const [name, value] of settingsAtStart(parameters)) {
      const ms = name === 'statement_timeout' ? timeoutMs(value) : undefined;
      if (ms !== undefined) found.set(session, ms);
    }
  return found;
}

/** The proxy speaks plain on this machine, or takes both at the target's address: nothing of the target's URL is said of TLS. */
function entryOf(
  { user, database, scramPassword }: Pick<Route, 'user' | 'database' | 'scramPassword'>,
  { host, port }: WireProxy,
  secret: string,
  standIn: CommandWatchOptions['standIn'],
): ConnectionSettings {
  const password = (standIn && scramPassword) ?? secret;
  const hosts = standIn?.hosts ?? [{ host, port }];
  return { hosts, user, password, database, sslmode: 'disable', parameters: {} };
}
