import { messageOf } from './errors.ts';

export interface Cleanup {
  /** Things that were released, in the order in which it was. */
  readonly done: string[];
  /** Things that could not be released, each with its reason; `safemigrate clean` finds these again. */
  readonly failed: { name: string; reason: string }[];
}

/**
 * Everything that a run acquires, with the way to give it back: last in, first out.
 *
 * The undo is registered before the thing is opened, because a thing that was cut off half-way (an abort, a
 * lost connection) may exist all the same: then undo gets `undefined` and has to look for itself.
 */
export class Scope {
  readonly #owned: { readonly name: string; readonly undo: () => Promise<void> }[] = [];
  readonly #cleanup: Cleanup = { done: [], failed: [] };
  #released: Promise<Cleanup> | undefined;

  async own<T>(
    name: string,
    open: () => Promise<T>,
    undo: (value: T | undefined) => Promise<void>,
  ): Promise<T> {
    if (this.#released) throw new Error(`${name}: opened after the scope was released`);
    let value: T | undefined;
    this.#owned.push({ name, undo: () => undo(value) });
    value = await open();
    return value;
  }

  /** Releases everything, whatever fails on the way, and never rejects; a second call gets the first one's result. */
  release(): Promise<Cleanup> {
    this.#released ??= this.#release();
    return this.#released;
  }

  async #release(): Promise<Cleanup> {
    for (const { name, undo } of this.#owned.toReversed()) {
      try {
        await undo();
        this.#cleanup.done.push(name);
      } catch (error) {
        this.#cleanup.failed.push({ name, reason: messageOf(error) });
      }
    }
    return this.#cleanup;
  }
}
