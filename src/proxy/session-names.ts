/** A change of what a name stands for, which the server has not answered yet. */
interface Change<Value> {
  readonly name: string;
  readonly value: Value | undefined;
  /** A Sync was sent behind it: if the server refuses or skips the change, what comes now meets the former meaning. */
  beforeSync: boolean;
}

/**
 * The names of a session's prepared statements, or of its portals, and what each stands for. The client need not wait for answers:
 * a name has its new meaning at once for what is sent behind the change, and for good when the server has answered it.
 */
export class SessionNames<Value> {
  readonly #answered = new Map<string, Value>();
  readonly #changes: Change<Value>[] = [];

  get(name: string): Value | undefined {
    const change = this.#lastChange(name);
    return change ? change.value : this.#answered.get(name);
  }

  /** Sets what the server has answered already. */
  set(name: string, value: Value | undefined): void {
    if (value === undefined) this.#answered.delete(name);
    else this.#answered.set(name, value);
  }

  /** Notes a change that is sent. @returns to be called with the server's answer, in the order of the changes: whether it counts. */
  change(name: string, value?: Value): (succeeded: boolean) => void {
    this.#changes.push({ name, value, beforeSync: false });
    return (succeeded) => {
      this.#changes.shift();
      if (succeeded) this.set(name, value);
    };
  }

  synced(): void {
    for (const change of this.#changes) change.beforeSync = true;
  }

  /** Tells whether the name may still stand for something else: its last change may not have happened. */
  isUncertain(name: string): boolean {
    return this.#lastChange(name)?.beforeSync === true;
  }

  #lastChange(name: string): Change<Value> | undefined {
    return this.#changes.findLast((change) => change.name === name);
  }
}
