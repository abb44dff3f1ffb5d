import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { githubJob, gitlabJob } from '../../src/cli/init/ci-jobs.ts';
import { dumpRecipe } from '../../src/cli/init/dump-recipe.ts';
import { inAnySchema } from '../../src/hazards/dump-commands.ts';
import { KNOWN_TOOLS, tablesToContinue } from '../../src/model/migration-tables.ts';
import { HAZARDS_BLOCK, HAZARDS_FOLDER, HAZARDS_PAGE, hazardPages, hazardTable } from './hazard-pages.ts';
import { withBlock } from './marked-block.ts';
import { OBSTACLES_BLOCK, OBSTACLES_PAGE, obstacleTable } from './obstacle-table.ts';
import { OPTIONS_BLOCK, OPTIONS_PAGE, optionTables } from './option-tables.ts';
import {
  CONFIGURATION_BLOCK,
  CONFIGURATION_PAGE,
  configurationTable,
  ERRORS_BLOCK,
  ERRORS_PAGE,
  errorTable,
} from './reference-tables.ts';
import { REPORT_BLOCK, REPORT_PAGE, reportPaths } from './report-page.ts';
import { SERVICES_BLOCK, SERVICES_PAGE, serviceTable } from './service-table.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

const CI_PAGE = 'docs/ci.md';
const GITLAB_TEMPLATE = 'templates/safemigrate.yml';

/** The project of the jobs that docs/ci.md shows. */
const MIGRATION = {
  name: 'Prisma',
  command: 'npx prisma migrate deploy',
  folder: 'prisma/migrations',
  isLibrary: false,
  urlEnv: 'DATABASE_URL',
  needsUrl: false,
};
const PROJECT = { exists: (file: string) => file === 'package-lock.json', text: () => '', list: () => [] };

function ciPage(): string {
  const block = (text: string) => `\`\`\`yaml\n${text}\`\`\``;
  const commands = ['mkdir -p test', ...dumpRecipe(MIGRATION)];
  return [
    ['dump', `\`\`\`sh\n${commands.join('\n')}\n\`\`\``],
    ['tables', tablesToDump()],
    ['github', block(githubJob(MIGRATION, PROJECT))],
    ['gitlab', block(gitlabJob(MIGRATION, PROJECT))],
  ].reduce(
    (page, [name = '', text = '']) => withBlock(page, name, text),
    readFileSync(path.join(root, CI_PAGE), 'utf8'),
  );
}

/** The tables of each tool, for the second command. */
function tablesToDump(): string {
  const rows = KNOWN_TOOLS.map((tool) => {
    const words = tablesToContinue(tool).map((table) => `\`--table='${inAnySchema(table)}'\``);
    return `| ${tool} | ${words.join(' ')} |`;
  });
  return ['| tool | in the second command |', '|---|---|', ...rows].join('\n');
}

/** The pages that `npm run docs` writes, in whole or in part: text by file, from the top of the project. */
export function generatedDocs(): ReadonlyMap<string, string> {
  const whole = [...hazardPages()].map(([name, text]) => [`${HAZARDS_FOLDER}/${name}`, text] as const);
  return new Map([
    [OPTIONS_PAGE, inPage(OPTIONS_PAGE, OPTIONS_BLOCK, optionTables())],
    [HAZARDS_PAGE, inPage(HAZARDS_PAGE, HAZARDS_BLOCK, hazardTable())],
    [REPORT_PAGE, inPage(REPORT_PAGE, REPORT_BLOCK, reportPaths())],
    [CONFIGURATION_PAGE, inPage(CONFIGURATION_PAGE, CONFIGURATION_BLOCK, configurationTable())],
    [ERRORS_PAGE, inPage(ERRORS_PAGE, ERRORS_BLOCK, errorTable())],
    [SERVICES_PAGE, inPage(SERVICES_PAGE, SERVICES_BLOCK, serviceTable())],
    [OBSTACLES_PAGE, inPage(OBSTACLES_PAGE, OBSTACLES_BLOCK, obstacleTable())],
    [CI_PAGE, ciPage()],
    [GITLAB_TEMPLATE, gitlabJob(MIGRATION, PROJECT)],
    ...whole,
  ]);
}

function inPage(page: string, block: string, text: string): string {
  return withBlock(readFileSync(path.join(root, page), 'utf8'), block, text);
}
