import { dependency, nodeCommand } from './node-tools.ts';
import {
  containing,
  type FoundTool,
  firstFile,
  firstFolder,
  folderMarked,
  type ProjectFiles,
  sourceWith,
  type ToolRule,
} from './project-files.ts';

const FOLDERS = [
  ...['migrations', 'db/migrations', 'db/migration', 'sql/migrations', 'database/migrations'],
  ...['assets/migrations', 'internal/migrations', 'internal/db/migrations', 'schema/migrations'],
];
const GRADLE = ['build.gradle', 'build.gradle.kts', 'gradle/libs.versions.toml'];

/** Migration tools of other languages than JavaScript, those with evidence of their own before those known by names of files. */
export const OTHER_TOOLS: readonly ToolRule[] = [
  {
    name: 'dbmate',
    find(here, top) {
      const folder = folderMarked(here, FOLDERS, { text: /^-- migrate:up/m });
      const evidence = dependency(here, 'dbmate') ?? (folder && `-- migrate:up in ${folder}`);
      if (evidence === undefined) return undefined;
      const where = folder === undefined || folder === 'db/migrations' ? '' : ` --migrations-dir ${folder}`;
      const direct = `dbmate${where} --no-dump-schema migrate`;
      return dependency(here, 'dbmate')
        ? { ...nodeCommand(here, top, /\bdbmate\b.* (migrate|up)\b/, direct), evidence, folder }
        : { evidence, command: direct, folder };
    },
  },
  {
    name: 'Django',
    find(here) {
      const evidence = containing(here, 'manage.py', /django/i);
      if (evidence === undefined) return undefined;
      const isByUrl = /dj[-_]database[-_]url|django-environ/.test(pythonPackages(here));
      return {
        evidence,
        command: `${djangoVariables(here)}python manage.py migrate`,
        needsUrl: !isByUrl,
        // Each app has its own.
        folder: djangoApps(here) ? '**/migrations' : undefined,
      };
    },
  },
  {
    name: 'Aerich',
    find(here) {
      const file = ['pyproject.toml', 'aerich.ini'].find((name) =>
        /^\[(tool\.)?aerich\]/m.test(here.text(name)),
      );
      if (file === undefined) return undefined;
      const place = /^location\s*=\s*"?(?:\.\/)?([^"\s]+)/m.exec(here.text(file))?.[1];
      return { evidence: file, command: 'aerich upgrade', folder: firstFolder(here, place ?? 'migrations') };
    },
  },
  {
    name: 'Alembic',
    find(here) {
      const evidence = firstFile(here, 'alembic.ini');
      if (evidence === undefined) return undefined;
      const place = /^script_location\s*=\s*(?:%\(here\)s\/)?(?:\.\/)?(\S+)/m.exec(here.text(evidence))?.[1];
      const folder = firstFolder(here, `${place ?? 'migrations'}/versions`);
      return { evidence, command: 'alembic upgrade head', folder };
    },
  },
  {
    name: 'Rails',
    find(here) {
      const evidence = containing(here, 'Gemfile', /^\s*gem ["']rails["']/m);
      if (evidence === undefined) return undefined;
      return { evidence, command: 'bin/rails db:migrate', folder: firstFolder(here, 'db/migrate') };
    },
  },
  {
    name: 'Ecto',
    find(here) {
      const evidence = containing(here, 'mix.exs', /:(ecto_sql|phoenix_ecto)\b/);
      // Else the connection is written in config/dev.exs, where nothing can be redirected.
      const isByUrl = ['dev', 'config', 'runtime'].some((name) =>
        here.text(`config/${name}.exs`).includes('DATABASE_URL'),
      );
      if (evidence === undefined || !isByUrl) return undefined;
      return { evidence, command: 'mix ecto.migrate', folder: firstFolder(here, 'priv/repo/migrations') };
    },
  },
  {
    name: 'goose',
    find(here) {
      const folder = folderMarked(here, FOLDERS, { text: /^-- \+goose Up/im });
      const module = containing(here, 'go.mod', /github\.com\/pressly\/goose/);
      const library = module && goLibrary(here, /"github\.com\/pressly\/goose(\/v\d+)?"/, FOLDERS);
      if (library) return library;
      if (folder === undefined) return undefined;
      const evidence = module ?? `-- +goose Up in ${folder}`;
      return {
        evidence,
        command: `env GOOSE_DRIVER=postgres goose -dir ${folder} up`,
        urlEnv: 'GOOSE_DBSTRING',
        folder,
      };
    },
  },
  {
    name: 'pop',
    find(here) {
      const module = containing(here, 'go.mod', /github\.com\/gobuffalo\/pop\//);
      return module === undefined
        ? undefined
        : goLibrary(here, /"github\.com\/gobuffalo\/pop\/v\d+"/, FOLDERS);
    },
  },
  {
    name: 'Diesel',
    find(here) {
      const evidence = firstFile(here, 'diesel.toml');
      if (evidence === undefined) return undefined;
      const place = /^dir\s*=\s*"(?:\.\/)?([^"]+)"/m.exec(here.text(evidence))?.[1];
      return { evidence, command: 'diesel migration run', folder: firstFolder(here, place ?? 'migrations') };
    },
  },
  {
    name: 'sqlx',
    find(here) {
      const evidence = containing(here, 'Cargo.toml', /^(\[[\w.-]*dependencies\.)?sqlx\b/m);
      if (evidence === undefined) return undefined;
      const crates = here.list('crates').map((name) => `crates/${name}/migrations`);
      const folder = firstFolder(here, 'migrations', ...crates);
      const source = sourceWith(here, '.rs', /\bmigrate!\(/);
      if (source !== undefined) return { evidence: source, command: OWN_PROGRAM, isLibrary: true, folder };
      if (folder === undefined) return undefined;
      const where = folder === 'migrations' ? '' : ` --source ${folder}`;
      return { evidence, command: `sqlx migrate run${where}`, folder };
    },
  },
  {
    name: 'golang-migrate',
    find(here) {
      const folder = folderMarked(here, FOLDERS, { name: /\.up\.sql$/ });
      const module = containing(here, 'go.mod', /github\.com\/golang-migrate\/migrate/);
      const library = module && goLibrary(here, /"github\.com\/golang-migrate\/migrate\/v\d+"/, FOLDERS);
      if (library) return library;
      // Other libraries name their files so, too.
      if (folder === undefined || /gobuffalo\/pop|uptrace\/bun/.test(here.text('go.mod'))) return undefined;
      const evidence = module ?? `${folder}/*.up.sql`;
      return { evidence, command: `migrate -path ${folder} -database {safemigrate:url} up`, folder };
    },
  },
  {
    name: 'Flyway',
    find(here) {
      const config = firstFile(here, 'flyway.toml', 'flyway.conf', 'conf/flyway.toml', 'conf/flyway.conf');
      const folder = firstFolder(here, 'migrations', 'sql', 'src/main/resources/db/migration');
      const found = { needsUrl: true, folder };
      if (config) return { ...found, evidence: config, command: `flyway ${JDBC_URL('-url')} migrate` };
      const maven = containing(here, 'pom.xml', /flyway-maven-plugin/);
      if (maven)
        return { ...found, evidence: maven, command: `mvn flyway:migrate ${JDBC_URL('-Dflyway.url')}` };
      const gradle = GRADLE.find((name) => /org\.flywaydb\.flyway\b/.test(here.text(name)));
      if (gradle)
        return { ...found, evidence: gradle, command: `./gradlew flywayMigrate ${JDBC_URL('-Pflyway.url')}` };
      return jvmLibrary(here, /flyway/, folder);
    },
  },
  {
    name: 'Liquibase',
    find(here) {
      const config = firstFile(here, 'liquibase.properties');
      const folder = firstFolder(here, 'changes', 'src/main/resources/db/changelog', 'db/changelog');
      if (config)
        return { evidence: config, command: `liquibase update ${JDBC_URL('--url')}`, needsUrl: true, folder };
      const maven = containing(here, 'pom.xml', /liquibase-maven-plugin/);
      if (maven) return { evidence: maven, command: `mvn liquibase:update ${JDBC}`, folder };
      return jvmLibrary(here, /liquibase/, folder);
    },
  },
  {
    name: 'a shell script',
    find(here) {
      const evidence = firstFile(here, 'migrate.sh');
      if (evidence === undefined) return undefined;
      return { evidence, command: 'sh migrate.sh', folder: firstFolder(here, 'migrations') };
    },
  },
];

/** The connection in an argument: a job that rehearses on a dump has no variable that names a database. */
const JDBC_URL = (option: string) => `"${option}={safemigrate:jdbc-url}"`;

/** Stands for a command that the files of the project do not tell. */
const OWN_PROGRAM = 'your-program migrate';
const JDBC =
  '-Dliquibase.url=jdbc:postgresql://{safemigrate:host}:{safemigrate:port}/{safemigrate:database} ' +
  '-Dliquibase.username={safemigrate:user} -Dliquibase.password={safemigrate:password}';

function goLibrary(here: ProjectFiles, imports: RegExp, folders: readonly string[]): FoundTool | undefined {
  const source = sourceWith(here, '.go', imports);
  if (source === undefined) return undefined;
  const folder = firstFolder(here, ...folders);
  return { evidence: source, command: OWN_PROGRAM, isLibrary: true, folder };
}

/** The application migrates when it starts, as those of Spring Boot, Micronaut and Quarkus do. */
function jvmLibrary(here: ProjectFiles, text: RegExp, folder: string | undefined): FoundTool | undefined {
  const evidence = ['pom.xml', ...GRADLE].find((name) => text.test(here.text(name)));
  return evidence === undefined ? undefined : { evidence, command: OWN_PROGRAM, isLibrary: true, folder };
}

/** Reads of a variable, in the ways of the packages for settings: `os.environ["DB_HOST"]`, `env("DB_HOST")`. */
const DJANGO_SETTING =
  /["'](HOST|PORT|NAME|USER|PASSWORD)["']\s*:\s*(?:int\()?(?:(?:os\.)?(?:environ(?:\.get)?|getenv)|env(?:\.\w+)?|config)[([]\s*["'](\w+)["']/g;
const DJANGO_PLACES: Readonly<Record<string, string>> = {
  HOST: 'host',
  PORT: 'port',
  NAME: 'database',
  USER: 'user',
  PASSWORD: 'password',
};

/** The variables of the settings, set to the clone: a job that rehearses on a dump has none that name a database. */
function djangoVariables(here: ProjectFiles): string {
  const packages = here.list('').flatMap((name) => [name, `${name}/settings`]);
  const files = packages.flatMap((folder) =>
    here.list(folder).flatMap((name) => (name.endsWith('.py') ? [`${folder}/${name}`] : [])),
  );
  for (const file of files.filter((each) => each.includes('settings'))) {
    const read = new Map(
      [...here.text(file).matchAll(DJANGO_SETTING)].map(([, key = '', variable = '']) => [key, variable]),
    );
    if (Object.keys(DJANGO_PLACES).every((key) => read.has(key)))
      return `env ${Object.entries(DJANGO_PLACES)
        .map(([key, place]) => `${read.get(key)}={safemigrate:${place}} `)
        .join('')}`;
  }
  return '';
}

function djangoApps(here: ProjectFiles): boolean {
  const hasApp = (folder: string, depth: number): boolean =>
    here.list(`${folder}migrations`).includes('__init__.py') ||
    (depth > 0 &&
      here
        .list(folder.slice(0, -1))
        .some((name) => !/[.]|^node_modules$/.test(name) && hasApp(`${folder}${name}/`, depth - 1)));
  return hasApp('', 3);
}

function pythonPackages(project: ProjectFiles): string {
  return ['requirements.txt', 'pyproject.toml', 'Pipfile'].map((name) => project.text(name)).join('\n');
}
