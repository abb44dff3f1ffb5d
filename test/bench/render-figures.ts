/** One measurement, as a table. */
export interface Figures {
  readonly title: string;
  /** When, with which Node, on how many processors, and how busy these were besides. */
  readonly measured: string;
  readonly rows: readonly Readonly<Record<string, string | number>>[];
  readonly notes: readonly string[];
}

/** Tables by the file that measured them, as docs/benchmarks.json holds them. */
export type FiguresByFile = Readonly<Record<string, readonly Figures[]>>;

/** Renders docs/benchmarks.md; recordFigures() calls it each time it stores a figure. */
export function renderFigures(all: FiguresByFile): string {
  const files = Object.keys(all).sort();
  const sections = files.map((file) => `## ${file}\n\n${(all[file] ?? []).map(table).join('\n\n')}`);
  return `${[HEAD, ...sections].join('\n\n')}\n`;
}

const HEAD = `# Benchmarks

Each benchmark writes its figures here (\`npm run bench\`, \`npm run soak\`); they are not edited by hand. Compare the figures of one table:
another machine, or a busier one, changes all of them.`;

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
