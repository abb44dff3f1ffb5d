import type { Observed } from '../proxy/observed.ts';
import type { SharedChange } from './shared-objects.ts';

export interface Author {
  readonly madeBy: 'command' | 'unknown';
  readonly evidence: string;
}

/** The ids of the transactions that the proxy saw, and what they prove. */
export class OwnTransactions {
  readonly #ids = new Set<number>();

  /** Learns the ids from the locks that are read after each statement. To be given every event of the proxy. */
  readonly observe = (event: Observed): void => {
    if (event.type !== 'reading') return;
    for (const id of event.reading.xids) this.#ids.add(id);
  };

  /**
   * Says who made a change to a catalogue that all databases of the server share. An id proves that the command made it. That
   * the command did not make it, no id can prove: it may have connected past the proxy, and savepoints that have ended are not
   * among the ids.
   */
  authorOf({ xmin }: Pick<SharedChange, 'xmin'>): Author {
    if (xmin !== null && this.#ids.has(xmin))
      return { madeBy: 'command', evidence: `a transaction of the command wrote it (${xmin})` };
    return {
      madeBy: 'unknown',
      evidence:
        xmin === null
          ? 'it changed while the command ran, and the transaction that changed it cannot be read'
          : `it changed while the command ran, in a transaction (${xmin}) that was not seen to be the command's`,
    };
  }
}
