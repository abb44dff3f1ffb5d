import type { PageSection, PageTable } from './page.ts';

/** One measurement, as a table. */
export interface Figures {
  readonly title: string;
  /** When, with which Node, on how many processors, and how busy these were besides. */
  readonly measured: string;
  readonly rows: readonly Readonly<Record<string, string | number>>[];
  readonly notes: readonly string[];
  /** The code that it is about has changed since: the page leaves it out. `npm run figures` sets it. */
  readonly outdated?: true;
}

/** Measurements by the file that made them, as bench/results holds them. */
export type FiguresByFile = Readonly<Record<string, readonly Figures[]>>;

/** Renders docs/benchmarks.md. A figure without a place on the page, or whose code has changed since, is left out. */
export function renderFigures(page: readonly PageSection[], all: FiguresByFile): string {
  const sections = page.flatMap(({ heading, tables }) => {
    const shown = tables.flatMap((each) => figuresOf(each, all)).filter(({ outdated }) => !outdated);
    return shown.length === 0 ? [] : [`## ${heading}`, ...shown.map(table)];
  });
  return `${[HEAD, ...sections].join('\n\n')}\n`;
}

export function figuresOf({ file, title }: PageTable, all: FiguresByFile): Figures[] {
  return (all[file] ?? []).filter((figures) => figures.title.startsWith(title));
}

const HEAD = `# Benchmarks

Figures to decide by, each with its day; the code that it is about has not changed since. Compare the figures of one table: another
machine, or a busier one, changes all of them. Benchmarks write this page (\`npm run bench\`, \`npm run soak\`). All results lie in
[test/bench/results](../test/bench/results).`;

function table({ title, measured, rows, notes }: Figures): string {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const line = (cells: readonly (string | number)[]) => `| ${cells.join(' | ')} |`;
  return [
    `### ${title}`,
    `Measured ${measured}.`,
    [
      line(columns),
      line(columns.map(() => '---')),
      ...rows.map((row) => line(columns.map((column) => row[column] ?? ''))),
    ].join('\n'),
    ...notes,
  ].join('\n\n');
}
