import lanes from '../lanes.json' with { type: 'json' };

/** Rows of test/lanes.json: a folder or a file of src, and the beginnings of the paths of tests that its changes can break. */
export const LANES: Readonly<Record<string, readonly string[]>> = lanes;

/** The row of a file of src (`src/swap/online/fork.ts`), which is the longest that its path begins with. */
export function laneOf(file: string): string | undefined {
  const place = file.slice('src/'.length);
  return Object.keys(LANES)
    .filter((row) => place === row || place.startsWith(`${row}/`))
    .sort((one, other) => other.length - one.length)[0];
}

/** The beginnings of the paths of tests to run after a change of these files; `unit` always. */
export function testsFor(changed: readonly string[]): string[] {
  const tests = changed.filter((file) => /^test\/(?!unit\/).*\.test\.ts$/.test(file));
  const rows = changed.filter((file) => file.startsWith('src/')).map(laneOf);
  const ofRows = rows.flatMap((row) => (row === undefined ? [] : (LANES[row] ?? [])));
  return [...new Set(['test/unit/', ...tests, ...ofRows.map((place) => `test/${place}`)])];
}
