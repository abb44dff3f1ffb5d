import { steadyNow } from '../clock.ts';
import type { Caveat, StatementSection, TransactionSection } from '../model/report.ts';
import { blocks, LOCK_MODES, lockModeOf } from '../postgres/lock-modes.ts';
import { messageWithoutSecrets, statementWithoutSecrets } from '../postgres/sql/statement-secrets.ts';
import type { Observed, RelationLock, Statement } from '../proxy/observed.ts';
import { isTooShort, SessionTimes, unknownTimes } from './doubted-times.ts';
import type { RelationNames } from './relation-names.ts';
import type { RepeatedStatement } from './repeated-statements.ts';
import { longestUnseenMs } from './sampler.ts';
import { type SampledLock, StatementStore, type StoredStatement } from './statement-store.ts';

/** A statement as it was sent, with the secrets in it. */
export interface SentText {
  /** null if the proxy does not have it. */
  readonly sql: string | null;
  /** The values of its parameters as SQL; null if they cannot be written so, undefined if it has none. */
  readonly values: readonly string[] | null | undefined;
}

type ReportedLock = NonNullable<StatementSection['locks']>[number];

type Reported = StoredStatement | RepeatedStatement;

/** Reasons for what the section leaves open. */
export const STATEMENT_CAVEATS: readonly Caveat[] = [
  {
    path: 'statements[].walBytes',
    kind: 'estimate',
    reason:
      'measured for the whole server; if locks were read once for several statements, the first is charged with all of it, and if none were read it is not known',
  },
  {
    path: 'statements[].rewrote',
    kind: 'estimate',
    reason: 'which statement rewrote a relation is concluded from the locks that it held',
  },
];

/** For texts that the proxy does not hold, and so cannot show to the guard. */
export const UNREAD_CAVEAT: Caveat = {
  path: 'command.refused',
  kind: 'unmeasured',
  reason:
    'texts over 2 MB were not parsed: of what reaches beyond the clone only calls of functions that act on the server were stopped in them (up to 64 MB); the rest is only seen if it changed roles, databases or settings',
};

/** For `sampled` statements. */
export const SAMPLED_CAVEAT: Caveat = {
  path: 'statements[].durationMs',
  kind: 'estimate',
  reason:
    'if sampled statements came in one message, the server reports their ends together, so times and locks may be a neighbour’s',
};

/** Collects what the proxy reports, for the report's statements. */
export class StatementLog {
  readonly #store = new StatementStore();
  readonly #times = new SessionTimes();

  /** To be given every event of the proxy. */
  readonly observe = (event: Observed): void => {
    this.#times.observe(event);
    switch (event.type) {
      case 'begin':
        this.#store.begin(event.statement);
        break;
      case 'end':
        this.#store.end(event.statement.id, event.outcome);
        break;
      case 'undone':
        this.#store.undo(event.statements);
        break;
      case 'locks':
        this.#store.learnLocks(event);
        break;
      case 'transaction-end':
        this.#store.endTransaction(event);
        break;
      case 'session':
      case 'session-end':
      case 'reading':
        break;
    }
  };

  /** Adds the locks that a sampler saw a statement hold. */
  sample(statement: Statement, locks: readonly RelationLock[], at = steadyNow()): void {
    const entry = this.#store.get(statement.id);
    if (!entry) return;
    entry.sampledAt = { first: entry.sampledAt?.first ?? at, last: at };
    for (const lock of locks) {
      const known = entry.sampled.find((each) => same(each, lock));
      if (known) known.until = at;
      else entry.sampled.push({ ...lock, since: at, until: at });
    }
  }

  /** Tells whether there was a CALL or DO. */
  get ranCode(): boolean {
    return this.#store.list().some(({ outcome }) => outcome?.tag === 'CALL' || outcome?.tag === 'DO');
  }

  /** Tells whether a statement failed, or a transaction or a part of one was rolled back. */
  get rolledBack(): boolean {
    return this.#store.list().some(({ statement, outcome }) => {
      const end = this.#store.transaction(statement.transaction)?.end;
      return outcome?.error != null || outcome?.tag === 'ROLLBACK' || end?.outcome !== 'committed';
    });
  }

  /** Tells whether a text was too large to be read. */
  get hasUnread(): boolean {
    return this.#store.list().some(({ statement }) => statement.note === 'unread');
  }

  /** Returns the OIDs of the relations of one database that were locked. */
  relations(database: number): Set<number> {
    const locks = this.#store.list().flatMap((entry) => [...(entry.locks ?? []), ...sampledOf(entry)]);
    return new Set(locks.filter((lock) => isOf(lock, database)).map(({ relation }) => relation));
  }

  /**
   * Returns the report's statements, in the order in which they began.
   * @param database OID of the one that the names are of.
   * @param made of its relations those that the command made: their locks block no session.
   */
  section(database: number, names: RelationNames, made: ReadonlySet<number> = new Set()): StatementSection[] {
    return this.#store.list().map((entry) => this.#report(entry, { database, names, made }));
  }

  /** Says which times are not known, because two ways of measuring them disagree. */
  get caveats(): Caveat[] {
    const outlasting = this.#store.list().find((entry) => this.#outlastsItsLocks(entry));
    const reason = `statement ${outlasting?.statement.id} took longer than its locks seem to have been held`;
    return [...this.#times.caveats, ...(outlasting ? [unknownTimes(reason)] : [])];
  }

  /** Returns what the command sent, by the statement's index, of statements that are reported one by one. */
  sent(): Map<number, SentText> {
    const kept = this.#store.list().filter((entry) => !('repeated' in entry));
    return new Map(
      kept.map(({ statement: { id, sql, note, values } }) => [
        id,
        { sql: note === null ? sql : null, values },
      ]),
    );
  }

  /** Returns the transactions of these statements, in the order in which they began. */
  transactions(): TransactionSection[] {
    const numbers = new Set(this.#store.list().map(({ statement }) => statement.transaction));
    return [...numbers].flatMap((number) => {
      const entry = this.#store.transaction(number);
      if (!entry) return [];
      const { transaction, session, startedAt, end } = entry;
      return [
        {
          transaction,
          session,
          startedAt: startedAt.toISOString(),
          endedAt: end?.at.toISOString() ?? null,
          outcome: end?.outcome ?? 'unknown',
        },
      ];
    });
  }

  #report(entry: Reported, known: Known): StatementSection {
    const { statement, outcome } = entry;
    const sampled = sampledOf(entry);
    const isSampled = entry.locks === null && sampled.length > 0;
    const locks = isSampled ? sampled : entry.locks;
    const isDoubted = this.#times.areDoubted(statement.session) || this.#outlastsItsLocks(entry);
    const held = locks?.map((lock) => this.#lock(entry, lock, known)).sort(strongestFirst) ?? null;
    return {
      index: statement.id,
      session: statement.session,
      sql: statement.note ? statement.sql : statementWithoutSecrets(statement.sql),
      ...(statement.note && { note: statement.note }),
      tag: outcome?.tag ?? null,
      startedAt: statement.startedAt.toISOString(),
      durationMs: outcome?.durationMs ?? 0,
      rows: outcome?.rows ?? null,
      transaction: statement.transaction,
      explicit: statement.explicit,
      exactness: isDoubted ? 'unknown' : isSampled ? 'sampled' : entry.exactness,
      error: outcome?.error ? errorOf(outcome.error, statement.sql) : null,
      ...(outcome?.warnings && {
        warnings: outcome.warnings.map((fields) => ({
          sqlstate: fields.get('C') ?? '',
          message: messageWithoutSecrets(fields.get('M') ?? '', statement.sql),
        })),
      }),
      locks: isDoubted ? (held?.map((lock) => ({ ...lock, heldMs: null })) ?? null) : held,
      rewrote: [],
      walBytes: entry.walBytes,
      ...('repeated' in entry ? { repeated: entry.repeated } : {}),
    };
  }

  #lock(entry: Reported, lock: RelationLock, { database, names, made }: Known): ReportedLock {
    const { statement, outcome } = entry;
    const mode = lockModeOf(lock.mode);
    const endedAt = this.#endOfTransaction(statement);
    return {
      relation: (isOf(lock, database) ? names.get(lock.relation) : undefined) ?? nameless(lock, database),
      mode: mode ?? lock.mode,
      acquiredBy: outcome?.tag ?? firstWord(statement.sql),
      heldMs: (isSeen(lock) ? seenMs(entry, lock, endedAt) : null) ?? this.#untilEndMs(statement),
      blocks: mode && !(isOf(lock, database) && made.has(lock.relation)) ? blocks(mode) : [],
    };
  }

  /** When what a statement locked was released; undefined if that is not known. */
  #endOfTransaction({ transaction }: Statement): number | undefined {
    const end = this.#store.transaction(transaction)?.end;
    return end?.outcome === 'prepared' ? undefined : end?.at.getTime();
  }

  #untilEndMs(statement: Statement): number | null {
    const endedAt = this.#endOfTransaction(statement);
    return endedAt === undefined ? null : Math.max(0, endedAt - statement.startedAt.getTime());
  }

  /** Tells whether one of its two times is wrong: a statement holds its locks at least to its own end. */
  #outlastsItsLocks(entry: Reported): boolean {
    const { statement, outcome, exactness, locks } = entry;
    const heldMs = this.#untilEndMs(statement);
    const isRead = (exactness === 'exact' || exactness === 'group') && (locks?.length ?? 0) > 0;
    if (!isRead || 'repeated' in entry || !outcome || heldMs === null) return false;
    return isTooShort(heldMs, outcome.durationMs - (outcome.preparedMs ?? 0));
  }
}

/** Relations of one database, by their OIDs. */
interface Known {
  readonly database: number;
  readonly names: RelationNames;
  readonly made: ReadonlySet<number>;
}

function sampledOf(entry: Reported): readonly RelationLock[] {
  return 'sampled' in entry ? entry.sampled : [];
}

function isSeen(lock: RelationLock): lock is SampledLock {
  return 'until' in lock;
}

/**
 * For how long a lock was held that came after the first look or was gone by the last one, as far as looks can tell; null of others.
 * @param endedAt the end of the transaction
 */
function seenMs(entry: Reported, { since, until }: SampledLock, endedAt: number | undefined): number | null {
  const seen = 'sampledAt' in entry ? entry.sampledAt : undefined;
  if (!seen || (since === seen.first && until === seen.last)) return null;
  const startedAt = entry.statement.startedAt.getTime();
  const from = since === seen.first ? startedAt : since;
  const to = until === seen.last ? endedAt : until;
  return to === undefined ? null : Math.max(0, to - from) + longestUnseenMs(until - startedAt);
}

const LOCK_MODE_NAMES: readonly string[] = LOCK_MODES;

function strongestFirst(a: ReportedLock, b: ReportedLock): number {
  const strength = ({ mode }: ReportedLock) => LOCK_MODE_NAMES.indexOf(mode);
  return strength(b) - strength(a) || a.relation.localeCompare(b.relation);
}

/** Relations of the whole cluster have the same OID in every database. */
function isOf(lock: RelationLock, database: number): boolean {
  return lock.database === database || lock.database === 0;
}

function nameless(lock: RelationLock, database: number): string {
  return isOf(lock, database)
    ? `relation ${lock.relation}`
    : `relation ${lock.relation} of database ${lock.database}`;
}

function same(a: RelationLock, b: RelationLock): boolean {
  return a.database === b.database && a.relation === b.relation && a.mode === b.mode;
}

function firstWord(sql: string): string {
  return /\w+/.exec(sql)?.[0]?.toUpperCase() ?? '';
}

function errorOf(fields: ReadonlyMap<string, string>, sql: string): NonNullable<StatementSection['error']> {
  const field = (letter: string) => fields.get(letter) ?? null;
  const words = (letter: string) => {
    const text = fields.get(letter);
    return text === undefined ? null : messageWithoutSecrets(text, sql);
  };
  // These quote statements, also those that a function made up.
  const quoting = (letter: string) => {
    const text = fields.get(letter);
    return text === undefined ? null : statementWithoutSecrets(text);
  };
  const position = fields.get('P');
  return {
    sqlstate: fields.get('C') ?? '',
    message: words('M') ?? '',
    detail: words('D'),
    hint: words('H'),
    position: position === undefined ? null : Number(position),
    where: quoting('W'),
    internalQuery: quoting('q'),
    schema: field('s'),
    table: field('t'),
    column: field('c'),
    dataType: field('d'),
    constraint: field('n'),
  };
}
