import { dumpCommands, inAnySchema } from '../../hazards/dump-commands.ts';
import { tablesToContinue } from '../../model/migration-tables.ts';
import type { DetectedTool } from './detect-tool.ts';

type Recipe = Pick<DetectedTool, 'name' | 'urlEnv' | 'needsUrl'>;

/** Words for sh that turn a tool's URL into one that pg_dump takes: Prisma adds parameters, and SQLAlchemy names its driver. */
const FOR_PG_DUMP: Readonly<Record<string, (variable: string) => string>> = {
  Prisma: (variable) => `"\${${variable}%%\\?*}"`,
  Alembic: (variable) => `"postgresql://\${${variable}#*://}"`,
};

/** The variable that holds the URL of the target. */
export function urlVariable({ urlEnv, needsUrl }: Pick<DetectedTool, 'urlEnv' | 'needsUrl'>): string {
  return needsUrl ? 'DATABASE_URL' : urlEnv;
}

/** The commands that make the dump of the jobs, on which the tool continues after its last migration. */
export function dumpRecipe(tool: Recipe): string[] {
  const variable = urlVariable(tool);
  const url = FOR_PG_DUMP[tool.name]?.(variable) ?? `"$${variable}"`;
  return dumpCommands(tablesToContinue(tool.name).map(inAnySchema), url);
}
