import type { MadeDatabases } from '../ownership/made-databases.ts';
import type { PostgresError } from '../postgres/protocol/messages.ts';
import {
  fieldsIf,
  isHarmlessElsewhere,
  nameOfStatement,
  reachOf,
} from '../postgres/sql/classify-statement.ts';
import type { ParsedStatement } from '../postgres/sql/parse.ts';
import { actsBeyond } from '../postgres/sql/statement-kinds.ts';
import { calledFunctions, optionOf } from '../postgres/sql/tree.ts';
import type { Gate, GateAnswer, Intent, UnreadText } from '../proxy/observed.ts';
import { findServerCall, type Known } from './find-server-call.ts';
import type { HarmlessJudge } from './harmless-judge.ts';
import { type Replacement, redirectTargetName } from './redirect-target-name.ts';
import { type KnownFunction, type ServerCall, ServerCalls } from './server-calls.ts';
import {
  classifyScope,
  type Names,
  permitsWriting,
  type StatementScope,
  templateOf,
  WORDS_OF_SETTINGS,
} from './statement-scope.ts';
import { UnreadCode } from './unread-code.ts';

/** A statement that was not let through, because its effect would have left the clone. */
export interface Refused {
  readonly what: string;
  readonly why: string;
}

export interface RehearsalGateOptions {
  readonly names: Names;
  /** In a cluster of its own the clone may be treated as the target's cluster would be; only its host is out of bounds. */
  readonly isolation: 'same-cluster' | 'own-cluster';
  /** Its server has a sandbox: no function can do harm there, whatever it reaches for. */
  readonly sandboxed?: boolean;
  /** `--permit cluster`: what reaches beyond the clone is let through knowingly, and reported. */
  readonly allow: boolean;
  /** Stands in for a COMMENT ON DATABASE of the command's, which would erase the clone's mark. */
  readonly marking: () => string | null;
  /** Functions and relations that would act beyond the clone if they were called, read or written; the gate adds those that the command creates. */
  readonly calls?: ServerCalls;
  /** Adds to `calls` what runs these functions, which the command has made or replaced. */
  readonly findUses?: (learned: readonly KnownFunction[]) => Promise<void>;
  /** Judges what runs, if the clone's server does not keep it there. */
  readonly judge?: HarmlessJudge;
  /** Returns the first of these functions that may write. It is asked about queries to other databases than the rehearsed one. */
  readonly writingFunction: (names: readonly string[]) => Promise<string | undefined>;
  /** Tells if this user may rewrite the catalogues that all databases share. Default: any user. */
  readonly rewritesShared?: (user: string) => boolean;
  readonly databases: Pick<MadeDatabases, 'limit' | 'has' | 'ownershipStatus' | 'announce'>;
  /** Databases that the clone's server knows by name, but whose files were not copied. */
  readonly leftOut?: ReadonlySet<string>;
}

/** The settings that a client's start-up message has. */
export type SettingsAtStart = readonly (readonly [name: string, value: string])[];

const OF_OWN_DATABASES: ReadonlySet<StatementScope['kind']> = new Set([
  'own-databases',
  'create-database',
  'drop-database',
]);
/** insufficient_privilege: tools take it as final, and do not try again. */
const SQLSTATE = '42501';
const NO_WORDS: ReadonlySet<string> = new Set();
const NOT_REHEARSED = 'it is not the rehearsed one';
const UNDEFINED_DATABASE = '3D000';

/**
 * Keeps the command's statements within the clone: refuses what would take effect beyond it, and, where the clone shares
 * the target's server, leads what names the target by its own name to the clone.
 */
export class RehearsalGate implements Gate {
  readonly refused: Refused[] = [];
  /** Statements that were let through although they reach beyond the clone. */
  readonly allowed: string[] = [];
  /** Statements that named the target and were redirected to the clone. */
  readonly redirected: string[] = [];
  /** Command tags of statements that the server ran although they reach beyond the clone, and that the gate has not seen. */
  readonly ranUnseen: string[] = [];
  readonly judge: HarmlessJudge | undefined;
  readonly #options: RehearsalGateOptions;
  readonly #calls: ServerCalls;
  readonly #names: Names;

  constructor(options: RehearsalGateOptions) {
    this.#options = options;
    this.judge = options.judge;
    this.#names = { ...options.names, made: (name) => options.databases.has(name) };
    this.#calls = options.calls ?? new ServerCalls();
  }

  get open(): boolean {
    const { isolation, sandboxed = false } = this.#options;
    return isolation === 'own-cluster' && sandboxed;
  }

  async before(intent: Intent): Promise<GateAnswer> {
    const answer = await this.#decide(intent);
    if (answer === 'run') await this.judge?.judge(intent, !this.#isElsewhere(intent.database));
    return answer;
  }

  async #decide({ database, sql, parsed, user }: Intent): Promise<GateAnswer> {
    const { names, databases, isolation, rewritesShared } = this.#options;
    const own = this.#names;
    const known: Known = { calls: this.#calls, names: own };
    const learned = this.#calls.takeLearned();
    if (learned.length > 0) await this.#options.findUses?.(learned);
    if (!parsed) return this.#unread(database).end(Buffer.from(sql));
    const call = await findServerCall(sql, parsed.node, known);
    if (isolation === 'own-cluster')
      return this.#withoutFiles(parsed.node) ?? this.#withinHost(classifyScope(parsed.node, names), call);
    const reach = classifyScope(parsed.node, own);
    const elsewhere = this.#isElsewhere(database);
    if (elsewhere && !isHarmlessElsewhere(parsed.node) && reach.kind !== 'own-databases')
      return this.#refuse(`${nameOfStatement(parsed.node)} in the database ${database}`, NOT_REHEARSED);
    if (elsewhere && permitsWriting(parsed.node))
      return this.#refuse(`a transaction that may write in the database ${database}`, NOT_REHEARSED);
    const writing = elsewhere ? await this.#writingCall(parsed.node) : undefined;
    if (writing !== undefined) return this.#refuse(`${writing}() in the database ${database}`, NOT_REHEARSED);
    switch (reach.kind) {
      case 'within':
        return this.#withoutCall(call);
      case 'beyond':
        if (reach.byRight && rewritesShared?.(user) === false) return this.#withoutCall(call);
        return this.#refuse(reach.what, reach.why);
      case 'redirect':
        // What could be redirected to the clone says the clone's name by now.
        return this.#refuse(
          reach.what,
          'it names the target in a way that could not be redirected to the clone',
        );
      case 'own-databases': {
        const statuses = await Promise.all(reach.databases.map((name) => databases.ownershipStatus(name)));
        return statuses.includes('others')
          ? this.#refuse(reach.what, 'it is not a database that the command made')
          : 'run';
      }
      case 'create-database':
        // The server itself refuses a name that is taken.
        await databases.announce(reach.database);
        return 'run';
      case 'drop-database':
        // Of one that is not there the server itself says so.
        return (await databases.ownershipStatus(reach.database)) !== 'others'
          ? 'run'
          : this.#refuse(`DROP DATABASE ${reach.database}`, 'it is not a database that the command made');
    }
  }

  /** Decides about the settings with which a session begins, as about a SET. */
  begins(settings: SettingsAtStart): GateAnswer {
    this.judge?.judgeSettings(settings);
    for (const [name] of settings) {
      const scope = classifyScope({ VariableSetStmt: { kind: 'VAR_SET_VALUE', name } }, this.#names);
      const answer =
        this.#options.isolation === 'own-cluster'
          ? this.#withinHost(scope, undefined)
          : scope.kind === 'beyond'
            ? this.#refuse(scope.what, scope.why)
            : 'run';
      if (answer !== 'run') return answer;
    }
    return 'run';
  }

  readsOnly(database: string): boolean {
    const { isolation, allow } = this.#options;
    return isolation === 'same-cluster' && !allow && this.#isElsewhere(database);
  }

  /** The databases that the command makes may be made, changed and dropped from anywhere. */
  mayWrite({ parsed }: Intent): boolean {
    return parsed !== null && OF_OWN_DATABASES.has(classifyScope(parsed.node, this.#names).kind);
  }

  #isElsewhere(database: string): boolean {
    const { names, databases } = this.#options;
    return database !== names.target && !databases.has(database);
  }

  /** Read-only transactions may still take advisory locks, send notifications and, before PostgreSQL 16, make large objects. */
  async #writingCall(node: ParsedStatement['node']): Promise<string | undefined> {
    return this.#options.writingFunction(calledFunctions(node).map(({ name }) => name));
  }

  /** The last line of defence: the server's own words for a statement that was read otherwise here, or not at all. */
  completed(tag: string, parsed: ParsedStatement | null): void {
    const { isolation, allow } = this.#options;
    if (isolation === 'own-cluster' || allow || !actsBeyond(tag)) return;
    const isKnown = parsed !== null && reachOf(parsed.node) !== 'database';
    if (!isKnown) this.ranUnseen.push(tag);
  }

  unread(database: string): UnreadText {
    this.judge?.note('a text that is too long to be read');
    return this.#unread(database);
  }

  #unread(database: string): UnreadText {
    const code = new UnreadCode(this.#calls, {
      forbidden: this.readsOnly(database) ? WORDS_OF_SETTINGS : NO_WORDS,
      matters: (call) => this.#matters(call),
    });
    let answered: ServerCall | undefined;
    const answer = (call: ServerCall | undefined) => {
      if (this.open || answered) return 'run';
      answered = call;
      return this.#withoutCall(call);
    };
    return {
      push: (bytes) => answer(code.push(bytes)),
      end: (bytes) => answer(code.push(bytes) ?? code.end()),
    };
  }

  /** Returns the functions and relations that it knows to act beyond the clone. */
  get knownCalls(): ServerCalls {
    return this.#calls;
  }

  /** Decides about the fast-path message, which calls a function by its OID. */
  calls(oid: number, database: string): GateAnswer {
    if (this.readsOnly(database))
      return this.#refuse(`a call by its OID in the database ${database}`, NOT_REHEARSED);
    const answer = this.#withoutCall(this.#calls.calledByOid(oid));
    if (answer === 'run') this.judge?.judgeCall(oid);
    return answer;
  }

  #withoutCall(call: ServerCall | undefined): GateAnswer {
    return call && this.#matters(call) ? this.#refuse(call.what, call.why) : 'run';
  }

  #matters({ leaves }: ServerCall): boolean {
    const { isolation, sandboxed = false } = this.#options;
    return isolation === 'same-cluster' || (leaves === 'server' && !sandboxed);
  }

  /** The server itself would only report a missing file, without the reason. */
  #withoutFiles(node: ParsedStatement['node']): PostgresError | undefined {
    const { leftOut, databases } = this.#options;
    const template = templateOf(node);
    if (template === undefined || !leftOut?.has(template) || databases.has(template)) return undefined;
    return {
      sqlstate: UNDEFINED_DATABASE,
      message: `the clone does not have the files of the database "${template}"`,
      hint: `Only the target was copied. With --database '${template}' safemigrate copies this database as well.`,
    };
  }

  #withinHost(reach: StatementScope, call: ServerCall | undefined): GateAnswer {
    const { sandboxed = false } = this.#options;
    return reach.kind === 'beyond' && reach.leaves === 'server' && !(reach.held && sandboxed)
      ? this.#refuse(reach.what, reach.why)
      : this.#withoutCall(call);
  }

  async translate(text: string, statements: readonly ParsedStatement[]): Promise<string | undefined> {
    const replacements = statements.flatMap((statement) => this.#replacement(statement));
    if (replacements.length === 0) return undefined;
    const { names } = this.#options;
    return await redirectTargetName(text, replacements, names);
  }

  #replacement(statement: ParsedStatement): Replacement[] {
    const { marking, databases, isolation } = this.#options;
    if (isolation === 'own-cluster') return [];
    const reach = classifyScope(statement.node, this.#names);
    const { from, to } = statement;
    if (reach.kind === 'own-databases' && limitsConnections(statement))
      return [{ kind: 'limit', from, to, limit: databases.limit }];
    if (reach.kind === 'create-database') return [{ kind: 'limit', from, to, limit: databases.limit }];
    if (reach.kind !== 'redirect') return [];
    this.redirected.push(reach.what);
    const mark = marking();
    if (fieldsIf(statement.node, 'CommentStmt') && mark !== null)
      return [{ kind: 'whole', from, to, text: mark }];
    return [{ kind: 'name', from, to }];
  }

  #refuse(what: string, why: string): GateAnswer {
    if (this.#options.allow) {
      this.allowed.push(what);
      this.judge?.note(what);
      return 'run';
    }
    this.refused.push({ what, why });
    const error: PostgresError = {
      sqlstate: SQLSTATE,
      message: `safemigrate does not run ${what} in a rehearsal: ${why}`,
      hint:
        this.#options.isolation === 'own-cluster'
          ? 'The clone runs on the same machine as other things. --permit cluster lets it through.'
          : 'The clone shares its server with the target. --permit cluster lets it through.',
    };
    return error;
  }
}

/** The limit of a database that the command made is our mark on it. */
function limitsConnections({ node }: ParsedStatement): boolean {
  return optionOf(fieldsIf(node, 'AlterDatabaseStmt')?.options, 'connection_limit') !== undefined;
}
