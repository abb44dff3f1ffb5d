/** A probe with another result than before the command: the application may do more or less, or reads other rows. */
export interface ProbeDifference {
  readonly kind: 'accepts less' | 'accepts more' | 'reads differ' | 'sequence behind';
  /** The relation under its name before the command: `public.orders`. */
  readonly relation: string;
  /** Other relations whose rows it shows. */
  readonly reads: readonly string[];
  /** The attempt, after "an": `INSERT of a row like an existing one`. */
  readonly probe: string;
  /** The constraint, index, column or sequence that the probe is about, without its relation; null: all of the relation. */
  readonly subject: string | null;
  /** The probe as SQL for a person. */
  readonly sql: string;
  /** Statement that makes the difference good; null: none is known from the probe alone. */
  readonly remedy: string | null;
  /** The role that tried it; null: the owner of the session. */
  readonly role: string | null;
  readonly before: string;
  readonly after: string;
  /** The code of the refusal after the command, else of the one before it. */
  readonly sqlstate: string | null;
  /** The constraint or index that the refusal names. */
  readonly constraint: string | null;
  /** Calls of the running application's statements that it is made after; null: not counted. Missing: it is made after none. */
  readonly callsPerSecond?: number | null;
}
