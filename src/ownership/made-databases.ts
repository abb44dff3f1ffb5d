import type { Session } from '../postgres/connection/session.ts';
import { birthLimit, type RunId } from './run-id.ts';

const LIMIT = 'SELECT datconnlimit AS "limit" FROM pg_database WHERE datname = $1';

/** Databases that the command makes for itself beside its own (shadow databases), dropped at the end of the run. */
export class MadeDatabases {
  readonly #names = new Set<string>();
  readonly #limit: number;
  readonly #control: Session;
  readonly #record: (names: readonly string[]) => Promise<void>;

  /** @param record writes the names into the clone's mark. */
  constructor(run: RunId, control: Session, record: (names: readonly string[]) => Promise<void>) {
    this.#limit = birthLimit(run);
    this.#control = control;
    this.#record = record;
  }

  /** The CONNECTION LIMIT that marks them from the statement on that makes them. */
  get limit(): number {
    return this.#limit;
  }

  get names(): readonly string[] {
    return [...this.#names];
  }

  has(name: string): boolean {
    return this.#names.has(name);
  }

  /** `absent`: there is no database of this name now. `made`: by the command. */
  async standing(name: string): Promise<'absent' | 'made' | 'others'> {
    const [row] = await this.#control.query<{ limit: number }>(LIMIT, [name]);
    if (!row) return 'absent';
    return this.#names.has(name) && row.limit === this.#limit ? 'made' : 'others';
  }

  /** Before one is made, so that it is known whatever happens next; a name that is taken already is nobody's of ours. */
  async announce(name: string): Promise<void> {
    if (this.#names.has(name) || (await this.standing(name)) !== 'absent') return;
    this.#names.add(name);
    await this.#record(this.names);
  }
}
