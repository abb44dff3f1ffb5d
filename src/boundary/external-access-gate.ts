import { externalAccessObjects } from '../database/inspect.ts';
import type { Session } from '../postgres/connection/session.ts';
import type { PostgresError } from '../postgres/protocol/messages.ts';
import { mayRunUserCode, nameOfStatement, outsideMadeBy } from '../postgres/sql/classify-statement.ts';
import type { ParsedStatement } from '../postgres/sql/parse.ts';
import type { Gate, GateAnswer, Intent, UnreadText } from '../proxy/observed.ts';
import type { RehearsalGate, SettingsAtStart } from './rehearsal-gate.ts';

const SQLSTATE = '42501';
const WHY = 'the clone could reach other systems through it';

/**
 * Keeps a clone that is not sandboxed from getting access to other systems. Statements that would make it are refused. What a
 * function has made is found in the catalogue before the session's next statement, which is refused then, and so is whatever
 * follows. Other sessions' uncommitted objects cannot be seen there, so a session that is in a transaction is checked again.
 */
export class ExternalAccessGate implements Gate {
  readonly #inner: RehearsalGate;
  readonly #connect: () => Promise<Session>;
  #session: Promise<Session> | undefined;
  /** Sessions that ran statements since the last check which may have made something. */
  readonly #suspects = new Set<number>();
  readonly #inBlock = new Set<number>();
  #found: readonly string[] = [];

  /** @param connect opens a session in the clone. */
  constructor(inner: RehearsalGate, connect: () => Promise<Session>) {
    this.#inner = inner;
    this.#connect = connect;
  }

  async before(intent: Intent): Promise<GateAnswer> {
    const { session, parsed } = intent;
    const role = parsed?.role ?? 'ordinary';
    if (this.#suspects.has(session) && role === 'ordinary') await this.#check(session);
    if (role === 'ordinary' && this.#found.length > 0)
      return this.#refuse(nameIn(parsed), this.#whyNothingMore());
    const made = parsed ? outsideMadeBy(parsed.node) : undefined;
    if (made !== undefined) return this.#refuse(made, WHY);
    const answer = await this.#inner.before(intent);
    if (answer !== 'run') return answer;
    if (role === 'begin') this.#inBlock.add(session);
    if (role === 'end') this.#inBlock.delete(session);
    if (parsed === null || mayRunUserCode(parsed.node)) this.#suspects.add(session);
    return 'run';
  }

  completed(tag: string, parsed: ParsedStatement | null): void {
    this.#inner.completed(tag, parsed);
  }

  unread(database: string): UnreadText {
    return this.#inner.unread(database);
  }

  begins(settings: SettingsAtStart): GateAnswer {
    return this.#inner.begins(settings);
  }

  readsOnly(database: string): boolean {
    return this.#inner.readsOnly(database);
  }

  mayWrite(intent: Intent): boolean {
    return this.#inner.mayWrite(intent);
  }

  calls(oid: number, database: string): GateAnswer {
    return this.#found.length > 0
      ? this.#refuse('a function', this.#whyNothingMore())
      : this.#inner.calls(oid, database);
  }

  translate(text: string, statements: readonly ParsedStatement[]): Promise<string | undefined> {
    return this.#inner.translate(text, statements);
  }

  /** Checks for what the last statements have made, once the command has ended, and closes the session. */
  async finish(): Promise<void> {
    const before = this.#found.length;
    this.#inBlock.clear();
    for (const session of [...this.#suspects]) await this.#check(session);
    if (before === 0 && this.#found.length > 0)
      this.#inner.refused.push({ what: 'any further statement', why: this.#whyNothingMore() });
    await this.close();
  }

  async close(): Promise<void> {
    const session = await this.#session?.catch(() => undefined);
    this.#session = undefined;
    await session?.close();
  }

  async #check(session: number): Promise<void> {
    if (!this.#inBlock.has(session)) this.#suspects.delete(session);
    this.#session ??= this.#connect();
    this.#found = await externalAccessObjects(await this.#session);
  }

  #whyNothingMore(): string {
    return `a function of the command has made the ${this.#found.join(', ')}, and ${WHY}`;
  }

  #refuse(what: string, why: string): PostgresError {
    if (!this.#inner.refused.some((refused) => refused.why === why && why !== WHY))
      this.#inner.refused.push({ what, why });
    return {
      sqlstate: SQLSTATE,
      message: `safemigrate does not run ${what} in a rehearsal: ${why}`,
      hint: "A clone in a sandbox lets it run (--clone cluster, on the server's machine). --permit external lets it through here.",
    };
  }
}

function nameIn(parsed: ParsedStatement | null): string {
  return parsed ? nameOfStatement(parsed.node) : 'a statement';
}
