import { diffArrays } from 'diff';

/** A line of two texts beside each other; null on the side that has no line there. */
export interface SideBySideRow {
  readonly before: string | null;
  readonly after: string | null;
  /** The character that ends a line does not count: `,` becomes `;` if nothing follows. */
  readonly same: boolean;
}

/** Aligns the lines of two texts, so that as many equal ones as possible are beside each other. */
export function sideBySide(before: string, after: string): SideBySideRow[] {
  const [old, now] = [before.split('\n'), after.split('\n')];
  const rows: SideBySideRow[] = [];
  let [oldFrom, nowFrom] = [0, 0];
  const addRows = (oldCount: number, nowCount: number, same: boolean) => {
    for (let line = 0; line < Math.max(oldCount, nowCount); line++)
      rows.push({
        before: line < oldCount ? (old[oldFrom + line] ?? null) : null,
        after: line < nowCount ? (now[nowFrom + line] ?? null) : null,
        same,
      });
    oldFrom += oldCount;
    nowFrom += nowCount;
  };
  let removed = 0;
  let added = 0;
  for (const change of diffArrays(old, now, { comparator: (one, other) => plain(one) === plain(other) })) {
    if (change.removed) removed += change.count;
    else if (change.added) added += change.count;
    else {
      addRows(removed, added, false);
      addRows(change.count, change.count, true);
      [removed, added] = [0, 0];
    }
  }
  addRows(removed, added, false);
  return rows;
}

const plain = (line: string) => line.replace(/[,;]$/, '');
