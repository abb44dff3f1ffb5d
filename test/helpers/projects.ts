import { existsSync } from 'node:fs';
import { cp, mkdtemp, realpath, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));

export type ProjectId = 'psql' | 'node-pg-migrate' | 'knex' | 'drizzle' | 'typeorm' | 'dbmate';

/** A small shop whose schema is kept by one migration tool (see fixtures/projects/README.md). */
export interface Project {
  readonly id: ProjectId;
  /** Where it lies in fixtures/; run the command in a copy, see copyProject(). */
  readonly folder: string;
  readonly command: string[];
  /** The same with one migration more, which fails half-way with SQLSTATE 23505. */
  readonly failing: string[];
  /** The command's own exit code then. */
  readonly failureExitCode: number;
  /** Where the tool keeps what it has done. */
  readonly journal: string;
  /** The environment in which the command reaches the database at `url`. */
  environment(url: string): NodeJS.ProcessEnv;
  /** @returns true, or why its tool is not there. */
  available(): true | string;
}

const programs = path.join(root, 'node_modules', '.bin');
const searchPath = [programs, process.env.PATH].join(path.delimiter);

type Row = Pick<Project, 'id' | 'command' | 'failing' | 'failureExitCode' | 'journal'>;

const ROWS: Row[] = [
  {
    id: 'psql',
    command: ['sh', 'migrate.sh'],
    failing: ['sh', 'migrate.sh', 'migrations', 'failing'],
    failureExitCode: 3,
    journal: 'schema_migrations',
  },
  {
    id: 'node-pg-migrate',
    command: ['node-pg-migrate', 'up'],
    failing: ['node-pg-migrate', 'up', '--use-glob', '--migrations-dir', '{migrations,failing}/*'],
    failureExitCode: 1,
    journal: 'pgmigrations',
  },
  {
    id: 'knex',
    command: ['knex', 'migrate:latest'],
    failing: ['knex', 'migrate:latest', '--knexfile', 'knexfile.failing.js'],
    failureExitCode: 1,
    journal: 'knex_migrations',
  },
  {
    id: 'drizzle',
    command: ['drizzle-kit', 'migrate'],
    failing: ['drizzle-kit', 'migrate', '--config', 'drizzle.failing.config.ts'],
    failureExitCode: 1,
    journal: 'drizzle.__drizzle_migrations',
  },
  {
    id: 'typeorm',
    command: ['typeorm', 'migration:run', '-d', 'data-source.js'],
    failing: ['typeorm', 'migration:run', '-d', 'failing.data-source.js'],
    failureExitCode: 1,
    journal: 'migrations',
  },
  {
    id: 'dbmate',
    command: ['dbmate', '--no-dump-schema', 'migrate'],
    failing: ['dbmate', '--no-dump-schema', '-d', 'db/migrations', '-d', 'db/failing', 'migrate'],
    failureExitCode: 2,
    journal: 'schema_migrations',
  },
];

export const PROJECTS: Project[] = ROWS.map((row) => ({
  ...row,
  folder: path.join(root, 'fixtures', 'projects', row.id),
  environment: (url) => ({
    ...process.env,
    PATH: searchPath,
    // dbmate's driver asks for TLS unless told otherwise.
    DATABASE_URL: row.id === 'dbmate' ? withParameter(url, 'sslmode', 'disable') : url,
  }),
  available: () => {
    const program = row.id === 'psql' ? 'psql' : (row.command[0] ?? '');
    const found = searchPath.split(path.delimiter).some((folder) => existsSync(path.join(folder, program)));
    return found || `${program} is not installed`;
  },
}));

export function project(id: ProjectId): Project {
  const found = PROJECTS.find((each) => each.id === id);
  if (!found) throw new Error(`no project ${id}`);
  return found;
}

/** A copy to run the command in, with the tools that its configuration imports. `remove()` takes it away. */
export async function copyProject(id: ProjectId): Promise<{ folder: string; remove(): Promise<void> }> {
  const folder = await mkdtemp(path.join(await realpath(tmpdir()), `project-${id}-`));
  await cp(project(id).folder, folder, { recursive: true, verbatimSymlinks: true });
  await symlink(path.join(root, 'node_modules'), path.join(folder, 'node_modules'));
  return { folder, remove: () => rm(folder, { recursive: true, force: true }) };
}

function withParameter(url: string, name: string, value: string): string {
  const changed = new URL(url);
  changed.searchParams.set(name, value);
  return changed.href;
}
