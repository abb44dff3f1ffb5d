/** A part of the page. Items can be left out from its end if the whole page would be too long. */
export interface Part {
  readonly title: string;
  /** Folded away behind its title. */
  readonly folded: boolean;
  /** Items of the least important parts are left out first. */
  readonly importance: number;
  /** Lines before the items: the head of a table. */
  readonly head: readonly string[];
  readonly items: readonly string[];
  /** Lines after the items: the end of a block of code. */
  readonly foot: readonly string[];
}

/** What most parts have in common. */
export const PART = { folded: true, head: [], foot: [] } as const;
