import type { Session } from '../postgres/connection/session.ts';

/**
 * Questions to one database that two sessions answer together: one takes them in their order, the other from the end.
 * With the first that fails all fail that nobody has taken yet.
 */
export class Work {
  readonly #waiting: { take: (session: Session) => Promise<void>; fail: (reason: unknown) => void }[] = [];
  /** Resolves when nothing waits any more; what was taken may still be going on. */
  readonly allTaken: Promise<void>;
  #noneWaits = () => {};

  constructor() {
    this.allTaken = new Promise((resolve) => {
      this.#noneWaits = resolve;
    });
  }

  get isEmpty(): boolean {
    return this.#waiting.length === 0;
  }

  add<T>(question: (session: Session) => Promise<T>): Promise<T> {
    const answer = new Promise<T>((resolve, reject) => {
      const take = async (session: Session) => {
        try {
          resolve(await question(session));
        } catch (error) {
          reject(error);
          for (const { fail } of this.#waiting.splice(0)) fail(error);
        }
      };
      this.#waiting.push({ take, fail: reject });
    });
    // It is looked at when all are there, and may have failed before.
    answer.catch(() => {});
    return answer;
  }

  async takeFromFront(session: Session): Promise<void> {
    for (let next = this.#waiting.shift(); next; next = this.#waiting.shift()) await next.take(session);
    this.#noneWaits();
  }

  async takeFromBack(session: Session): Promise<void> {
    for (let next = this.#waiting.pop(); next; next = this.#waiting.pop()) await next.take(session);
  }
}
