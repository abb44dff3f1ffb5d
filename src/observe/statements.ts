import type { Caveat, StatementSection, TransactionSection } from '../model/report.ts';
import { blocks, LOCK_MODES, lockModeOf } from '../postgres/lock-modes.ts';
import { messageWithoutSecrets, statementWithoutSecrets } from '../postgres/sql/statement-secrets.ts';
import type { Exactness, Observed, Outcome, RelationLock, Statement } from '../proxy/observed.ts';
import type { RelationNames } from './relation-names.ts';

type ReportedLock = NonNullable<StatementSection['locks']>[number];

interface Entry {
  readonly statement: Statement;
  outcome?: Outcome;
  exactness: Exactness;
  locks: readonly RelationLock[] | null;
  walBytes: number | null;
  /** Seen by looking now and then; kept apart, because a later word of the proxy is better. */
  readonly sampled: RelationLock[];
}

/** What the section leaves open, and why. */
export const STATEMENT_CAVEATS: readonly Caveat[] = [
  {
    path: 'statements[].walBytes',
    kind: 'estimate',
    reason:
      'it is what the whole server wrote in the meantime; of statements whose locks were read once the first has it all, and where none were read it is not known',
  },
  {
    path: 'statements[].rewrote',
    kind: 'estimate',
    reason: 'which statement wrote a relation anew is told by the locks that it held',
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
    'where sampled statements came in one message, the server tells their ends together, so times and locks may be a neighbour’s',
};

/** Collects what the proxy tells into the report's statements. */
export class StatementLog {
  readonly #entries = new Map<number, Entry>();
  readonly #transactionEnds = new Map<number, { at: Date; outcome: 'committed' | 'rolled back' }>();

  /** To be given every event of the proxy. */
  readonly observe = (event: Observed): void => {
    switch (event.type) {
      case 'begin':
        this.#entries.set(event.statement.id, {
          statement: event.statement,
          exactness: 'unknown',
          locks: null,
          walBytes: null,
          sampled: [],
        });
        break;
      case 'end': {
        const entry = this.#entries.get(event.statement.id);
        if (entry) entry.outcome = event.outcome;
        break;
      }
      case 'undone':
        for (const { id } of event.statements) this.#entries.delete(id);
        break;
      case 'locks':
        this.#learn(event);
        break;
      case 'transaction-end':
        this.#transactionEnds.set(event.transaction, event);
        break;
      case 'session':
      case 'session-end':
      case 'reading':
        break;
    }
  };

  /** What a sampler saw a statement hold. */
  sample(statement: Statement, locks: readonly RelationLock[]): void {
    const entry = this.#entries.get(statement.id);
    if (!entry) return;
    for (const lock of locks) if (!entry.sampled.some((known) => same(known, lock))) entry.sampled.push(lock);
  }

  /** A text was too large to be read. */
  get hasUnread(): boolean {
    return [...this.#entries.values()].some(({ statement }) => statement.note === 'unread');
  }

  /** OIDs of the relations of one database that were locked. */
  relations(database: number): Set<number> {
    const locks = [...this.#entries.values()].flatMap((entry) => [...(entry.locks ?? []), ...entry.sampled]);
    return new Set(locks.filter((lock) => isOf(lock, database)).map(({ relation }) => relation));
  }

  /**
   * The report's statements, in the order in which they began.
   * @param database OID of the one that the names are of.
   * @param made of its relations those that the command made: their locks block nobody.
   */
  section(database: number, names: RelationNames, made: ReadonlySet<number> = new Set()): StatementSection[] {
    return this.#begun().map((entry) => this.#report(entry, { database, names, made }));
  }

  /** One that was undone begins anew behind those of other sessions. */
  #begun(): Entry[] {
    return [...this.#entries.values()].sort((a, b) => a.statement.id - b.statement.id);
  }

  /** In the order in which they began. */
  transactions(): TransactionSection[] {
    const begun = new Map<number, Statement>();
    for (const { statement } of this.#begun())
      if (!begun.has(statement.transaction)) begun.set(statement.transaction, statement);
    return [...begun].map(([transaction, { session, startedAt }]) => {
      const end = this.#transactionEnds.get(transaction);
      return {
        transaction,
        session,
        startedAt: startedAt.toISOString(),
        endedAt: end?.at.toISOString() ?? null,
        outcome: end?.outcome ?? 'unknown',
      };
    });
  }

  #learn(event: Extract<Observed, { type: 'locks' }>): void {
    const like = event.like && this.#entries.get(event.like.id);
    for (const { id } of event.statements) {
      const entry = this.#entries.get(id);
      if (!entry) continue;
      entry.exactness = event.exactness;
      entry.locks = like ? like.locks : event.locks;
      entry.walBytes = id === event.statements[0]?.id ? event.walBytes : null;
    }
  }

  #report(entry: Entry, known: Known): StatementSection {
    const { statement, outcome } = entry;
    const sampled = entry.locks === null && entry.sampled.length > 0;
    const locks = sampled ? entry.sampled : entry.locks;
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
      exactness: sampled ? 'sampled' : entry.exactness,
      error: outcome?.error ? errorOf(outcome.error, statement.sql) : null,
      locks: locks?.map((lock) => this.#lock(entry, lock, known)).sort(strongestFirst) ?? null,
      rewrote: [],
      walBytes: entry.walBytes,
    };
  }

  #lock({ statement, outcome }: Entry, lock: RelationLock, { database, names, made }: Known): ReportedLock {
    const mode = lockModeOf(lock.mode);
    const until = this.#transactionEnds.get(statement.transaction);
    return {
      relation: (isOf(lock, database) ? names.get(lock.relation) : undefined) ?? nameless(lock, database),
      mode: mode ?? lock.mode,
      acquiredBy: outcome?.tag ?? firstWord(statement.sql),
      heldMs: until ? Math.max(0, until.at.getTime() - statement.startedAt.getTime()) : null,
      blocks: mode && !(isOf(lock, database) && made.has(lock.relation)) ? blocks(mode) : [],
    };
  }
}

/** What is known of the relations of one database, by their OIDs. */
interface Known {
  readonly database: number;
  readonly names: RelationNames;
  readonly made: ReadonlySet<number>;
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
  // These quote statements, also those that a function made up.
  const quoting = (letter: string) => {
    const text = fields.get(letter);
    return text === undefined ? null : statementWithoutSecrets(text);
  };
  const position = fields.get('P');
  return {
    sqlstate: fields.get('C') ?? '',
    message: messageWithoutSecrets(fields.get('M') ?? '', sql),
    detail: field('D'),
    hint: field('H'),
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
