import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { SHARED_AND_NEW } from './reflink.ts';

export interface CopyOrder {
  readonly from: string;
  readonly to: string;
}

/** What became of a batch of files. */
export interface Attempt {
  readonly of: number;
  /** Those that were not copied, for whatever reason. */
  readonly failed: readonly CopyOrder[];
}

/** In a thread, calls that block cost less than those of the thread pool. It is so short that it needs no file of its own. */
const THREAD = `
const { copyFileSync, lchownSync } = require('node:fs');
const { parentPort, workerData: { mode, owner } } = require('node:worker_threads');
parentPort.on('message', (orders) => {
  const failed = orders.filter(({ from, to }) => {
    try {
      copyFileSync(from, to, mode);
      if (owner) lchownSync(to, owner.uid, owner.gid);
      return false;
    } catch {
      return true;
    }
  });
  parentPort.postMessage(failed);
});`;

/**
 * Two threads that create files which share all blocks with their original. On two processors they take 1.05 s for 40,000 files of
 * XFS, and the thread pool 1.45 s.
 */
export class ReflinkThreads {
  readonly #threads: readonly Worker[];

  /** @param owner of the copies; null for our own user. */
  constructor(owner: { readonly uid: number; readonly gid: number } | null) {
    const workerData = { mode: SHARED_AND_NEW, owner };
    this.#threads = [0, 1].map(() => new Worker(THREAD, { eval: true, workerData }));
  }

  /** Tries to copy all of them. */
  async *copy(batches: AsyncGenerator<CopyOrder[], undefined>): AsyncGenerator<Attempt> {
    const next = async (thread: Worker) => {
      const { value: batch } = await batches.next();
      if (!batch) return { thread, batch, failed: [] };
      const answer = once(thread, 'message');
      thread.postMessage(batch);
      const [failed] = (await answer) as [CopyOrder[]];
      return { thread, batch, failed };
    };
    const running = new Map<Worker, ReturnType<typeof next>>();
    const start = (thread: Worker) => {
      const work = next(thread);
      // It is no longer waited for if the other thread's batch ends the copying.
      work.catch(() => {});
      running.set(thread, work);
    };
    for (const thread of this.#threads) start(thread);
    while (running.size > 0) {
      const { thread, batch, failed } = await Promise.race(running.values());
      running.delete(thread);
      if (!batch) continue;
      start(thread);
      yield { of: batch.length, failed };
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#threads.map((thread) => thread.terminate()));
  }
}
