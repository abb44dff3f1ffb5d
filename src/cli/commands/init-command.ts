import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { SafemigrateError } from '../../errors.ts';
import { DUMP_FILE } from '../../hazards/dump-commands.ts';
import { EXIT } from '../exit-codes.ts';
import { type DetectedTool, detectTools } from '../init/detect-tool.ts';
import { dumpRecipe, urlVariable } from '../init/dump-recipe.ts';
import { firstCommand, planInit } from '../init/init-files.ts';
import type { ProjectFiles } from '../init/project-files.ts';
import { CONFIG_FILES } from '../options/config.ts';
import { INIT_SETTINGS } from '../options/subcommand-settings.ts';
import { visibleLines } from '../print.ts';
import { gatherOptions } from '../read-options.ts';

/**
 * Recognises the project's migration tool, writes a configuration and the CI job, and prints the first command. It overwrites nothing.
 * @throws SafemigrateError `USAGE` if no tool is recognised.
 */
export async function initCommand(flags: Record<string, unknown>): Promise<number> {
  const { dryRun = false } = await gatherOptions(INIT_SETTINGS, flags);
  const folder = process.cwd();
  const project = projectFiles(folder);
  const [tool, ...others] = detectTools(project);
  if (!tool)
    throw new SafemigrateError('USAGE', `No migration tool was recognised in ${folder}.`, {
      hint: 'Run it at the top of the project; or write `safemigrate --` before the command that you run today. Nothing was written.',
    });
  const lines = [`Found ${tool.name} (${tool.evidence}).`];
  for (const other of others)
    lines.push(`Also found ${other.name} (${other.evidence}): ${firstCommand(other)}`);
  const { files, notes } = planInit(tool, project);
  for (const { file, text } of files) {
    const taken = CONFIG_FILES.includes(file)
      ? presentConfig(project)
      : project.exists(file)
        ? file
        : undefined;
    if (taken === 'package.json') lines.push('package.json has a configuration, and was left as it is.');
    else if (taken !== undefined) lines.push(`${taken} is there already, and was left as it is.`);
    else if (dryRun) lines.push('', `--- ${file}`, text.trimEnd());
    else {
      const place = path.join(folder, file);
      mkdirSync(path.dirname(place), { recursive: true });
      writeFileSync(place, text, { flag: 'wx' });
      lines.push(`Wrote ${file}.`);
    }
  }
  if (notes.length > 0) lines.push('', ...notes);
  if (dryRun) lines.push('', 'Nothing was written.');
  lines.push('', 'The first rehearsal, which changes nothing on the database:', '');
  lines.push(...firstRehearsal(tool, project).map((line) => `    ${line}`));
  lines.push('', 'The dump for CI, which has no value of the application; again after each migration:', '');
  lines.push(...ciDump(tool, project).map((line) => `    ${line}`));
  process.stdout.write(visibleLines(`${lines.join('\n')}\n`));
  return EXIT.passed;
}

function presentConfig(project: ProjectFiles): string | undefined {
  const isInPackage = /"safemigrate"\s*:\s*\{/.test(project.text('package.json'));
  return CONFIG_FILES.find((each) => project.exists(each)) ?? (isInPackage ? 'package.json' : undefined);
}

/** The words to type, in a project that may have safemigrate among its packages and the URL in its .env. */
function firstRehearsal(tool: DetectedTool, project: ProjectFiles): string[] {
  const variable = urlVariable(tool);
  const isKnown = isInDotenv(variable, project);
  const npx = project.exists('node_modules/.bin/safemigrate') ? 'npx ' : '';
  return [
    ...(isKnown ? [] : [`export ${variable}=postgresql://user@host/database`]),
    // With --dry-run there is no configuration, and one of the project that is a program holds for rehearsals only.
    `${npx}safemigrate doctor${variable === 'DATABASE_URL' ? '' : ` --url-env ${variable}`}${isKnown ? `    # reads ${variable} from .env` : ''}`,
    `${npx}${firstCommand(tool)}`,
  ];
}

/** The words to type at the top of the project, where the URL is as for the first rehearsal. */
function ciDump(tool: DetectedTool, project: ProjectFiles): string[] {
  const folder = path.dirname(DUMP_FILE);
  return [
    ...(isInDotenv(urlVariable(tool), project) ? ['. ./.env'] : []),
    ...(project.exists(folder) ? [] : [`mkdir ${folder}`]),
    ...dumpRecipe(tool),
  ];
}

function isInDotenv(variable: string, project: ProjectFiles): boolean {
  return new RegExp(`^\\s*(export\\s+)?${variable}\\s*=`, 'm').test(project.text('.env'));
}

function projectFiles(folder: string): ProjectFiles {
  const at = (file: string) => path.join(folder, file);
  return {
    exists: (file) => existsSync(at(file)),
    text: (file) => {
      try {
        return readFileSync(at(file), 'utf8');
      } catch {
        return '';
      }
    },
    list: (file) => {
      try {
        return readdirSync(at(file)).sort();
      } catch {
        return [];
      }
    },
  };
}
