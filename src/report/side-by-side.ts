/** A line of two texts beside each other; null on the side that has none there. */
export interface SideBySideRow {
  readonly before: string | null;
  readonly after: string | null;
  /** What ends the line does not count: `,` becomes `;` where nothing more follows. */
  readonly same: boolean;
}

/** The lines of two texts, so that as many as possible stand beside their like. */
export function sideBySide(before: string, after: string): SideBySideRow[] {
  const [old, now] = [before.split('\n'), after.split('\n')];
  let [start, oldEnd, nowEnd] = [0, old.length, now.length];
  const alike = (one: number, other: number) => plain(old[one] ?? '') === plain(now[other] ?? '');
  while (start < oldEnd && start < nowEnd && alike(start, start)) start += 1;
  while (oldEnd > start && nowEnd > start && alike(oldEnd - 1, nowEnd - 1)) {
    oldEnd -= 1;
    nowEnd -= 1;
  }
  const kept = commonLines(old.slice(start, oldEnd).map(plain), now.slice(start, nowEnd).map(plain));
  const rows: SideBySideRow[] = [];
  let [one, other] = [0, 0];
  const advance = (oldTo: number, nowTo: number) => {
    while (one < oldTo || other < nowTo) {
      const row = { before: one < oldTo ? old[one] : null, after: other < nowTo ? now[other] : null };
      rows.push({ before: row.before ?? null, after: row.after ?? null, same: false });
      one = Math.min(one + 1, oldTo);
      other = Math.min(other + 1, nowTo);
    }
  };
  const equal = (oldTo: number) => {
    for (; one < oldTo; one++, other++)
      rows.push({ before: old[one] ?? '', after: now[other] ?? '', same: true });
  };
  equal(start);
  for (const [oldAt, nowAt] of kept) {
    advance(start + oldAt, start + nowAt);
    equal(start + oldAt + 1);
  }
  advance(oldEnd, nowEnd);
  equal(old.length);
  return rows;
}

const plain = (line: string) => line.replace(/[,;]$/, '');

/** Indexes of a longest common subsequence. Time and memory grow with the product of both lengths. */
function commonLines(old: readonly string[], now: readonly string[]): [number, number][] {
  const width = now.length + 1;
  const longest = new Uint16Array((old.length + 1) * width);
  const at = (one: number, other: number) => longest[one * width + other] ?? 0;
  for (let one = old.length - 1; one >= 0; one--)
    for (let other = now.length - 1; other >= 0; other--)
      longest[one * width + other] =
        old[one] === now[other]
          ? at(one + 1, other + 1) + 1
          : Math.max(at(one + 1, other), at(one, other + 1));
  const pairs: [number, number][] = [];
  for (let one = 0, other = 0; one < old.length && other < now.length; ) {
    if (old[one] === now[other]) pairs.push([one++, other++]);
    else if (at(one + 1, other) >= at(one, other + 1)) one += 1;
    else other += 1;
  }
  return pairs;
}
