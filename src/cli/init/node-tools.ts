import { firstFile, firstFolder, type ProjectFiles, type ToolRule } from './project-files.ts';

const endings = (stem: string) => ['js', 'ts', 'mjs', 'cjs', 'mts', 'cts'].map((each) => `${stem}.${each}`);

/** Migration tools among the packages of Node.js. */
export const NODE_TOOLS: readonly ToolRule[] = [
  {
    name: 'Prisma',
    find(here, top) {
      const configured = /"schema"\s*:\s*"(?:\.\/)?([^"]+)"/.exec(here.text('package.json'))?.[1];
      const schema = firstFile(
        here,
        ...(configured?.endsWith('.prisma') ? [configured] : []),
        ...['prisma/schema.prisma', 'schema.prisma', 'src/prisma/schema.prisma'],
      );
      if (schema === undefined) return undefined;
      const place = schema.includes('/') ? `${schema.slice(0, schema.lastIndexOf('/'))}/` : '';
      const command = nodeCommand(here, top, /\bprisma migrate deploy\b/, 'prisma migrate deploy');
      return {
        ...command,
        evidence: schema,
        urlEnv: prismaVariable(here, schema),
        folder: firstFolder(here, `${place}migrations`),
      };
    },
  },
  {
    name: 'Drizzle',
    find(here, top) {
      const config = firstFile(here, ...endings('drizzle.config'));
      const evidence = config ?? dependency(here, 'drizzle-kit');
      if (evidence === undefined) return undefined;
      const out = /\bout\s*:\s*['"`](?:\.\/)?([^'"`]+?)\/?['"`]/.exec(here.text(config ?? ''))?.[1];
      return {
        ...nodeCommand(here, top, /\bdrizzle-kit migrate\b/, 'drizzle-kit migrate'),
        evidence,
        folder: firstFolder(here, ...(out === undefined ? [] : [out]), 'drizzle'),
      };
    },
  },
  {
    name: 'TypeORM',
    find(here, top) {
      const evidence = dependency(here, 'typeorm');
      if (evidence === undefined) return undefined;
      const source = firstFile(
        here,
        ...['src/data-source.ts', 'data-source.ts', 'src/data-source.js', 'data-source.js'],
      );
      const kind = /"type"\s*:\s*"module"/.test(here.text('package.json')) ? 'esm' : 'commonjs';
      const program = source?.endsWith('.js') ? 'typeorm' : `typeorm-ts-node-${kind}`;
      const direct = `${program} migration:run -d ${source ?? 'src/data-source.ts'}`;
      const folder = firstFolder(here, 'src/migrations', 'migrations', 'src/migration');
      return {
        ...nodeCommand(here, top, /\btypeorm[\w-]* .*migration:run\b/, direct),
        evidence,
        folder,
      };
    },
  },
  {
    name: 'Knex',
    find(here, top) {
      const evidence = firstFile(here, ...endings('knexfile')) ?? dependency(here, 'knex');
      if (evidence === undefined) return undefined;
      return {
        ...nodeCommand(here, top, /\bknex .*migrate:latest\b|\bknex migrate:latest\b/, 'knex migrate:latest'),
        evidence,
        folder: firstFolder(here, 'migrations', 'db/migrations', 'src/migrations'),
      };
    },
  },
  {
    name: 'Sequelize',
    find(here, top) {
      const rules = firstFile(here, '.sequelizerc');
      const evidence = rules ?? dependency(here, 'sequelize-cli');
      if (evidence === undefined) return undefined;
      const words = /migrations-path['"]?\s*:\s*([^\n]+)/.exec(here.text(rules ?? ''))?.[1] ?? '';
      const parts = [...words.matchAll(/['"`]([^'"`]+)['"`]/g)].map(([, part = '']) => part);
      const named = parts.join('/').replace(/^\.\//, '');
      return {
        ...nodeCommand(here, top, /\bsequelize(-cli)? .*db:migrate(?!:)/, 'sequelize db:migrate'),
        evidence,
        folder: firstFolder(here, ...(named === '' ? [] : [named]), 'migrations'),
      };
    },
  },
  {
    name: 'node-pg-migrate',
    find(here, top) {
      const evidence = dependency(here, 'node-pg-migrate');
      if (evidence === undefined) return undefined;
      return {
        ...nodeCommand(here, top, /\bnode-pg-migrate\b.* up\b/, 'node-pg-migrate up'),
        evidence,
        folder: firstFolder(here, 'migrations'),
      };
    },
  },
  {
    name: 'db-migrate',
    find(here, top) {
      const evidence = dependency(here, 'db-migrate');
      if (evidence === undefined) return undefined;
      return {
        ...nodeCommand(here, top, /\bdb-migrate\b.* up\b/, 'db-migrate up'),
        evidence,
        folder: firstFolder(here, 'migrations'),
      };
    },
  },
];

/** Migrations go to the direct URL where there is one: the other may lead to a pooler. */
function prismaVariable(here: ProjectFiles, schema: string): string {
  const source = here.text(schema);
  const direct = /\bdirectUrl\s*=\s*env\("(\w+)"\)/.exec(source) ?? /\burl\s*=\s*env\("(\w+)"\)/.exec(source);
  const config = here.text(firstFile(here, ...endings('prisma.config'), ...endings('prisma7.config')) ?? '');
  const configured = /\burl\s*:\s*(?:env(?:<[^>]*>)?\(\s*['"](\w+)|process\.env(?:\.|\[['"])(\w+))/.exec(
    config,
  );
  return direct?.[1] ?? configured?.[1] ?? configured?.[2] ?? 'DATABASE_URL';
}

/** A package of the folder's own package.json. */
export function dependency(here: ProjectFiles, ...names: string[]): string | undefined {
  const { dependencies, devDependencies } = packageOf(here);
  const found = names.find(
    (name) => dependencies?.[name] !== undefined || devDependencies?.[name] !== undefined,
  );
  return found === undefined ? undefined : `${found} in package.json`;
}

type PackageFile = Partial<
  Record<'dependencies' | 'devDependencies' | 'scripts', Record<string, string> | undefined>
>;

function packageOf(project: ProjectFiles): PackageFile {
  try {
    return JSON.parse(project.text('package.json') || '{}') as PackageFile;
  } catch {
    return {};
  }
}

/** Scripts that migrate besides doing something else, or another database. */
const OTHER_PURPOSE = /test|reset|start|dev|build|seed|rollback|undo|^pre|^post|^ci\b/;

/**
 * The script of the project whose text is the tool's command and nothing else; else the command itself. A script
 * knows options, folders and files of variables that the bare command lacks.
 */
export function nodeCommand(
  here: ProjectFiles,
  top: ProjectFiles,
  command: RegExp,
  direct: string,
): { command: string; atTop: boolean } {
  const manager = managerOf(top) ?? managerOf(here) ?? 'npm';
  for (const project of new Set([top, here])) {
    const script = Object.entries(packageOf(project).scripts ?? {}).find(
      ([name, text]) => command.test(text) && !/[;&|]/.test(text) && !OTHER_PURPOSE.test(name),
    );
    if (script !== undefined) return { command: `${manager} run ${script[0]}`, atTop: project === top };
  }
  const run = { npm: 'npx', pnpm: 'pnpm exec', yarn: 'yarn run', bun: 'bunx' }[manager];
  return { command: `${run} ${direct}`, atTop: false };
}

/** The package manager, by its lock file. */
export function managerOf(project: ProjectFiles): 'npm' | 'pnpm' | 'yarn' | 'bun' | undefined {
  if (project.exists('pnpm-lock.yaml')) return 'pnpm';
  if (project.exists('yarn.lock')) return 'yarn';
  if (project.exists('bun.lock') || project.exists('bun.lockb')) return 'bun';
  return project.exists('package-lock.json') ? 'npm' : undefined;
}
