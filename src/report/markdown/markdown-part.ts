/** A part of the page with one block, as the hands that are not sections yet write it. */
export interface Part extends PartBlock {
  readonly title: string;
  readonly folded: boolean;
  readonly importance: number;
}

/** A part of the page. Items can be left out from its end if the whole page would be too long. */
export interface CommentPart {
  /** Safe in Markdown if the part is open, and in HTML if it is folded. */
  readonly title: string;
  /** Folded away behind its title. */
  readonly folded: boolean;
  /** Items of the least important parts are left out first. */
  readonly importance: number;
  readonly blocks: readonly PartBlock[];
}

export interface PartBlock {
  /** Lines before the items, if any item is kept: the head of a table. */
  readonly head: readonly string[];
  readonly items: readonly string[];
  /** Lines after the items: the end of a block of code. */
  readonly foot: readonly string[];
}

/** What most parts have in common. */
export const PART = { folded: true, head: [], foot: [] } as const;

export function commentPart({ title, folded, importance, head, items, foot }: Part): CommentPart {
  return { title, folded, importance, blocks: [{ head, items, foot }] };
}
