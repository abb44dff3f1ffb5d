import { isReplaced } from '../model/converted-column.ts';
import type { Report } from '../model/report.ts';
import { convertedWords, losingChanges, lostWords } from './phrases.ts';
import { usersWords } from './sections/first-answers.ts';

/** Consequences for the target, which the question before a change names. */
export interface Stakes {
  /** Rows and values that are lost for good; a sentence each. */
  readonly lost: readonly string[];
  /** Who waits, and for how long. */
  readonly users: string;
}

export function stakesOf(report: Report): Stakes {
  const { lost = [], converted = [] } = report.data ?? {};
  const counted = [
    ...lost
      .filter(({ rowsWithValue, rowsChanged }) => rowsWithValue !== 0 && rowsChanged !== 0)
      .map(lostWords),
    ...converted.filter(isReplaced).map((column) => convertedWords(column, 'converts')),
  ];
  const { certain } = losingChanges(report);
  const uncounted = certain.map(({ verb, kind, object }) => `${verb} ${kind} ${object}`);
  return { lost: counted.length > 0 || lost.length > 0 ? counted : uncounted, users: usersWords(report) };
}
