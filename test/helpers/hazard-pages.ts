import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { KNOWN_HAZARDS } from '../../src/hazards/catalogue.ts';
import type { HazardTexts } from '../../src/hazards/hazard-definition.ts';

/** The block of docs/hazards.md that `npm run docs` writes: a list of the pages. */
export const HAZARDS_BLOCK = 'hazards';
export const HAZARDS_PAGE = 'docs/hazards.md';
/** The folder of one page for each hazard, from the top of the project. All files in it are written by `npm run docs`. */
export const HAZARDS_FOLDER = 'docs/hazards';

const EXAMPLES = fileURLToPath(new URL('../../fixtures/hazards', import.meta.url));

/** The list of all hazards as Markdown, each with a link to its page. */
export function hazardTable(): string {
  const rows = KNOWN_HAZARDS.map(({ code, title }) => `| [${code}](hazards/${code}.md) | ${title} |`);
  return ['| hazard | what it is |', '|---|---|', ...rows].join('\n');
}

/** The page of each hazard, by file name: what `safemigrate explain` prints, and the examples that the tests run. */
export function hazardPages(): ReadonlyMap<string, string> {
  return new Map(KNOWN_HAZARDS.map((record) => [`${record.code}.md`, hazardPage(record)]));
}

function hazardPage({ code, title, condition, effect, safer }: HazardTexts): string {
  const examples = readdirSync(EXAMPLES)
    .filter((folder) => folder === code || folder.startsWith(`${code}-`))
    .flatMap((folder) => [
      ['Found in', sqlOf(folder, 'bad.sql')],
      ['Not found in', sqlOf(folder, 'good.sql')],
    ]);
  const parts = [
    `# ${code}`,
    `${capitalised(title)}.`,
    `**Found when**: ${condition}`,
    `**In production**: ${effect}`,
    `**Safer**: ${safer}`,
    ...examples.map(([label, sql]) => `${label}:\n\n\`\`\`sql\n${sql}\n\`\`\``),
    `[All hazards](../hazards.md). On the command line: \`safemigrate explain ${code}\`.`,
  ];
  return `${parts.join('\n\n')}\n`;
}

function sqlOf(folder: string, file: string): string {
  return readFileSync(path.join(EXAMPLES, folder, file), 'utf8').trim();
}

function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
