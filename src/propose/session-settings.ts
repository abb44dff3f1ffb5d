import type { SessionStart } from '../observe/command-watch.ts';
import { settingsAtStart } from '../postgres/protocol/startup-settings.ts';
import { fieldsIf, isQuery, settingsNamedBy } from '../postgres/sql/classify-statement.ts';
import { literal } from '../postgres/sql/quote.ts';
import type { Node } from '../postgres/sql/tree.ts';
import type { KeptStatement } from './kept-statements.ts';

/** Statements that take a session of the script back to how it began. */
const AS_BEGUN = ['RESET SESSION AUTHORIZATION', 'RESET ALL'];

/** The settings of each session of the command, for a script that is one session. */
export class SessionSettings {
  readonly #settings: Map<number, readonly SessionSetting[]>;
  #current: number | undefined;

  /** @param counts whether a setting of a session's beginning is wanted, by its name. */
  constructor(sessions: ReadonlyMap<number, SessionStart>, counts: (name: string) => boolean) {
    this.#settings = new Map(
      [...sessions].map(([session, { parameters }]) => [
        session,
        settingsAtStart(parameters)
          .filter(([name]) => counts(name))
          .map(settingAtStart),
      ]),
    );
  }

  /**
   * Returns what the script has to send before it goes on as this session of the command: what takes the settings of the session
   * before it back, and its own.
   */
  enter(session: number): { reset: readonly string[]; settings: readonly SessionSetting[] } {
    if (this.#current === session) return { reset: [], settings: [] };
    const former = this.#of(this.#current);
    this.#current = session;
    return { reset: former.length > 0 ? AS_BEGUN : [], settings: this.#of(session) };
  }

  /** To be given each statement that the script sends. */
  note({ section, subject: { node, sql }, setsLockTimeout }: KeptStatement): void {
    const { session } = section;
    if (isSetting(node)) this.#settings.set(session, [...this.#of(session), { sql, setsLockTimeout }]);
  }

  #of(session: number | undefined): readonly SessionSetting[] {
    return (session === undefined ? undefined : this.#settings.get(session)) ?? [];
  }
}

/** A statement that sets something for the rest of a session. */
type SessionSetting = ReturnType<typeof settingAtStart>;

function settingAtStart([name, value]: readonly [string, string]) {
  const sql = `SELECT pg_catalog.set_config(${literal(name)}, ${literal(value).trim()}, false)`;
  return { sql, setsLockTimeout: name === 'lock_timeout' };
}

/** For the rest of the session, not for one transaction. */
function isSetting(node: Node): boolean {
  const set = fieldsIf(node, 'VariableSetStmt');
  if (set) return set.is_local !== true && !/^TRANSACTION/.test(set.name ?? '');
  return isQuery(node) && settingsNamedBy(node).length > 0;
}
