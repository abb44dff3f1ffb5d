import type { Session } from '../postgres/connection/session.ts';
import { markerConnectionLimit, type RunId } from './run-id.ts';

const LIMIT = 'SELECT datconnlimit AS "limit" FROM pg_database WHERE datname = $1';

/** Databases that the command creates for itself (shadow databases); they are dropped at the end of the run. */
export class MadeDatabases {
  readonly #names = new Set<string>();
  readonly #limit: number;
  readonly #control: Session;
  readonly #record: (names: readonly string[]) => Promise<void>;

  /** @param record writes the names into the clone's mark. */
  constructor(run: RunId, control: Session, record: (names: readonly string[]) => Promise<void>) {
    this.#limit = markerConnectionLimit(run);
    this.#control = control;
    this.#record = record;
  }

  /** The CONNECTION LIMIT with which the statement that creates them marks them. */
  get limit(): number {
    return this.#limit;
  }

  get names(): readonly string[] {
    return [...this.#names];
  }

  has(name: string): boolean {
    return this.#names.has(name);
  }

  /** Says whose a database is. `absent`: none has this name. `made`: the command has created it. */
  async ownershipStatus(name: string): Promise<'absent' | 'made' | 'others'> {
    const [row] = await this.#control.query<{ limit: number }>(LIMIT, [name]);
    if (!row) return 'absent';
    return this.#names.has(name) && row.limit === this.#limit ? 'made' : 'others';
  }

  /** Records a name before the database is created. A name that is taken already is not ours. */
  async announce(name: string): Promise<void> {
    if (this.#names.has(name) || (await this.ownershipStatus(name)) !== 'absent') return;
    this.#names.add(name);
    await this.#record(this.names);
  }
}
