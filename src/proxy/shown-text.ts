import type { StatementNote } from '../model/report.ts';
import { LARGEST_TEXT_BYTES } from '../postgres/protocol/frames.ts';

/** A statement's text as the report has it. */
export interface ShownText {
  readonly sql: string;
  readonly note?: StatementNote | undefined;
}

/** Returns the text itself, or a note if it is too large to be parsed. */
export function shownText(text: Buffer): ShownText {
  return text.length > LARGEST_TEXT_BYTES ? unreadText(text.length) : { sql: text.toString().trim() };
}

export function unreadText(bytes: number): ShownText {
  return { sql: `[a text of ${bytes} bytes]`, note: 'unread' };
}
