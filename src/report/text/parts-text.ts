import { formatCount } from '../../format.ts';
import { flow, marks, type Span, type TextStyle, tone } from '../text-layout.ts';
import { oneLine } from '../visible.ts';
import { cutToWidth } from '../width.ts';

/** Longer messages are cut; the JSON report has them in full. */
export const MESSAGE_COLUMNS = 600;

export function heading(style: TextStyle, title: string, summary = ''): string[] {
  return flow(style, [tone('strong', title.toUpperCase()), summary === '' ? '' : `  ${summary}`], 2, ['']);
}

/** `  Label    text, wrapped below itself`. */
export function fact(style: TextStyle, label: string, spans: Span[]): string[] {
  return flow(style, spans, 11, [tone('dim', `  ${label.padEnd(8)} `)]);
}

/** A line of a list. @param sign another one than `-` if that could be read as "dropped". */
export function bullet(style: TextStyle, spans: Span[], sign = '-'): string[] {
  return flow(style, spans, 4, [`  ${sign} `]);
}

/** Puts a message from outside on one line and cuts it. */
export function messageText(style: TextStyle, text: string, columns = MESSAGE_COLUMNS): string {
  return cutToWidth(oneLine(text), columns, marks(style).more);
}

/** The last line of a list that was cut; nothing if the list is complete. */
export function andMore(style: TextStyle, missing: number, of = ''): string[] {
  if (missing <= 0) return [];
  const words = `${marks(style).more} and ${formatCount(missing)} more${of}, see the JSON report`;
  return flow(style, [tone('dim', words)], 4, ['  ']);
}
