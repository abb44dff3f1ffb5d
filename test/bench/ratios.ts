export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const [low, high] = [sorted[sorted.length % 2 === 0 ? middle - 1 : middle], sorted[middle]];
  return ((low ?? 0) + (high ?? 0)) / 2;
}

/** One line for each measurement: its time, and how many times as long as it `subject` took. */
export function printRatios(title: string, milliseconds: Record<string, number>, subject: string): void {
  const own = milliseconds[subject] ?? 0;
  const lines = Object.entries(milliseconds).map(
    ([name, ms]) =>
      `  ${name.padEnd(24)} ${ms.toFixed(0).padStart(8)} ms${name === subject ? '' : `   ${subject} / this: ${(own / ms).toFixed(2)}`}`,
  );
  console.log(`\n${title}\n${lines.join('\n')}`);
}
