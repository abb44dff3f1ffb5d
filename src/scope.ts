import { messageOf } from './errors.ts';

export interface Cleanup {
  /** What was released, in the order in which it was. */
  readonly done: string[];
  /** What could not be released, each with its reason; `safemigrate clean` finds these again. */
  readonly failed: { name: string; reason: string }[];
}

interface Owned {
  readonly name: string;
  readonly undo: () => Promise<void>;
}

/**
 * Everything that a run acquires, with the way to give it back: last in, first out.
 *
 * The undo is registered before the thing is opened, because a thing that was cut off half-way (an abort, a
 * lost connection) may exist all the same: then undo gets `undefined` and has to look for itself.
 */
export class Scope {
  readonly #owned: Owned[] = [];
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

  /** Releases everything, whatever fails on the way; a second call gets the first one's result. */
  release(): Promise<Cleanup> {
    this.#released ??= this.#releaseAll();
    return this.#released;
  }

  async #releaseAll(): Promise<Cleanup> {
    const cleanup: Cleanup = { done: [], failed: [] };
    for (let owned = this.#owned.pop(); owned; owned = this.#owned.pop()) {
      try {
        await owned.undo();
        cleanup.done.push(owned.name);
      } catch (error) {
        cleanup.failed.push({ name: owned.name, reason: messageOf(error) });
      }
    }
    return cleanup;
  }
}
