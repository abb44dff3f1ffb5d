/** The files of a project, as far as a migration tool is recognised by them. */
export interface ProjectFiles {
  exists(file: string): boolean;
  /** The text of a file; empty if there is none. */
  text(file: string): string;
  /** Names in a folder; none if there is none. */
  list(folder: string): readonly string[];
}

/** A migration tool that was recognised, and how its migrations are run. */
export interface DetectedTool {
  readonly name: string;
  /** What it was recognised by. */
  readonly evidence: string;
  /** The command as people type it. */
  readonly command: string;
  /** The variable that holds the URL of the database. */
  readonly urlEnv: string;
  /** It reads the parts of the connection from elsewhere, so that safemigrate has to be given the URL. */
  readonly needsUrl: boolean;
  /** The folder with its migrations. */
  readonly folder: string;
}

interface Detector extends Pick<DetectedTool, 'name' | 'folder'> {
  readonly find: (project: ProjectFiles) => string | undefined;
  readonly command: string | ((project: ProjectFiles) => string);
  readonly urlEnv?: string;
  readonly needsUrl?: boolean | ((project: ProjectFiles) => boolean);
}

const JS = ['js', 'ts', 'mjs', 'cjs', 'mts', 'cts'];

/** Those with evidence of their own come before those that are known by the names of files alone. */
const DETECTORS: readonly Detector[] = [
  {
    name: 'Prisma',
    folder: 'prisma/migrations',
    find: (project) =>
      dependency(project, 'prisma', '@prisma/client') ?? file(project, 'prisma/schema.prisma'),
    command: 'npx prisma migrate deploy',
  },
  {
    name: 'Drizzle',
    folder: 'drizzle',
    find: (project) =>
      dependency(project, 'drizzle-kit') ?? file(project, ...JS.map((each) => `drizzle.config.${each}`)),
    command: 'npx drizzle-kit migrate',
  },
  {
    name: 'TypeORM',
    folder: 'src/migrations',
    find: (project) => dependency(project, 'typeorm'),
    command: (project) => {
      const source = ['src/data-source.ts', 'data-source.ts', 'src/data-source.js', 'data-source.js'].find(
        (each) => project.exists(each),
      );
      const kind = /"type"\s*:\s*"module"/.test(project.text('package.json')) ? 'esm' : 'commonjs';
      const program = source?.endsWith('.js') ? 'typeorm' : `typeorm-ts-node-${kind}`;
      return `npx ${program} migration:run -d ${source ?? 'src/data-source.ts'}`;
    },
  },
  {
    name: 'Knex',
    folder: 'migrations',
    find: (project) => dependency(project, 'knex') ?? file(project, ...JS.map((each) => `knexfile.${each}`)),
    command: 'npx knex migrate:latest',
  },
  {
    name: 'node-pg-migrate',
    folder: 'migrations',
    find: (project) => dependency(project, 'node-pg-migrate'),
    command: 'npx node-pg-migrate up',
  },
  {
    name: 'dbmate',
    folder: 'db/migrations',
    find: (project) => dependency(project, 'dbmate') ?? marked(project, 'db/migrations', '-- migrate:up'),
    command: (project) => `${dependency(project, 'dbmate') ? 'npx ' : ''}dbmate --no-dump-schema migrate`,
  },
  {
    name: 'Django',
    folder: '*/migrations',
    find: (project) => (/django/i.test(project.text('manage.py')) ? 'manage.py' : undefined),
    command: 'python manage.py migrate',
    needsUrl: (project) => !/dj[-_]database[-_]url|django-environ/.test(pythonPackages(project)),
  },
  {
    name: 'Alembic',
    folder: 'migrations/versions',
    find: (project) => file(project, 'alembic.ini'),
    command: 'alembic upgrade head',
  },
  {
    name: 'Rails',
    folder: 'db/migrate',
    find: (project) => (/^\s*gem ["']rails["']/m.test(project.text('Gemfile')) ? 'Gemfile' : undefined),
    command: 'bin/rails db:migrate',
  },
  {
    name: 'goose',
    folder: 'migrations',
    find: (project) =>
      containing(project, 'go.mod', 'github.com/pressly/goose') ??
      marked(project, 'migrations', '-- +goose Up'),
    command: 'goose -dir migrations up',
    urlEnv: 'GOOSE_DBSTRING',
  },
  {
    name: 'sqlx',
    folder: 'migrations',
    find: (project) => (/^sqlx\b/m.test(project.text('Cargo.toml')) ? 'Cargo.toml' : undefined),
    command: 'sqlx migrate run',
  },
  {
    name: 'golang-migrate',
    folder: 'migrations',
    find: (project) =>
      containing(project, 'go.mod', 'github.com/golang-migrate/migrate') ??
      (project.list('migrations').some((name) => name.endsWith('.up.sql'))
        ? 'migrations/*.up.sql'
        : undefined),
    command: 'migrate -path migrations -database {safemigrate:url} up',
  },
  {
    name: 'Flyway',
    folder: 'migrations',
    find: (project) =>
      file(project, 'flyway.toml', 'flyway.conf', 'conf/flyway.toml', 'conf/flyway.conf') ??
      containing(project, 'pom.xml', 'flyway'),
    command: 'flyway migrate',
    needsUrl: true,
  },
  {
    name: 'Liquibase',
    folder: 'changes',
    find: (project) => file(project, 'liquibase.properties') ?? containing(project, 'pom.xml', 'liquibase'),
    command: 'liquibase update',
    needsUrl: true,
  },
  {
    name: 'a shell script',
    folder: 'migrations',
    find: (project) => file(project, 'migrate.sh'),
    command: 'sh migrate.sh',
  },
];

/** Recognises the migration tools of a project by its files; the most certain one comes first. */
export function detectTools(project: ProjectFiles): DetectedTool[] {
  return DETECTORS.flatMap(({ name, folder, find, command, urlEnv = 'DATABASE_URL', needsUrl = false }) => {
    const evidence = find(project);
    if (evidence === undefined) return [];
    return [
      {
        ...{ name, folder, evidence, urlEnv },
        command: typeof command === 'string' ? command : command(project),
        needsUrl: typeof needsUrl === 'boolean' ? needsUrl : needsUrl(project),
      },
    ];
  });
}

function file(project: ProjectFiles, ...names: string[]): string | undefined {
  return names.find((name) => project.exists(name));
}

function dependency(project: ProjectFiles, ...names: string[]): string | undefined {
  const found = names.find((name) => packageNames(project).has(name));
  return found === undefined ? undefined : `${found} in package.json`;
}

function packageNames(project: ProjectFiles): ReadonlySet<string> {
  try {
    const { dependencies, devDependencies } = JSON.parse(project.text('package.json') || '{}') as Record<
      string,
      Record<string, string> | undefined
    >;
    return new Set([...Object.keys(dependencies ?? {}), ...Object.keys(devDependencies ?? {})]);
  } catch {
    return new Set();
  }
}

function containing(project: ProjectFiles, name: string, text: string): string | undefined {
  return project.text(name).includes(text) ? name : undefined;
}

/** A tool that writes a mark of its own into each migration. */
function marked(project: ProjectFiles, folder: string, mark: string): string | undefined {
  const [first] = project.list(folder).filter((name) => name.endsWith('.sql'));
  return first !== undefined && project.text(`${folder}/${first}`).includes(mark)
    ? `${folder}/${first}`
    : undefined;
}

function pythonPackages(project: ProjectFiles): string {
  return ['requirements.txt', 'pyproject.toml', 'Pipfile'].map((name) => project.text(name)).join('\n');
}
