/** The files of a project, as far as a migration tool is recognised by them. */
export interface ProjectFiles {
  exists(file: string): boolean;
  /** The text of a file; empty if there is none. */
  text(file: string): string;
  /** Names in a folder; none if there is none. */
  list(folder: string): readonly string[];
}

/** A migration tool in one folder of a project, and how its migrations are run there. */
export interface FoundTool {
  /** The file that it was recognised by. */
  readonly evidence: string;
  readonly command: string;
  /** The command is a script of the project's top, and runs there. */
  readonly atTop?: boolean;
  /** The variable that holds the URL of the database. Default: DATABASE_URL. */
  readonly urlEnv?: string;
  /** The tool reads the parts of the connection from elsewhere, so that safemigrate has to be given the URL. */
  readonly needsUrl?: boolean;
  /** The folder with its migrations, which exists; undefined if none was found. */
  readonly folder?: string | undefined;
  /** The project's own program migrates with it as a library, by a command that its files do not tell. */
  readonly isLibrary?: boolean;
}

export interface ToolRule {
  readonly name: string;
  /** Looks for the tool in a folder of the project. @param top the project's files from its top. */
  find(here: ProjectFiles, top: ProjectFiles): FoundTool | undefined;
}

/** Folders with no part of the application: what tools are there says nothing about the database of the project. */
const IGNORED =
  /^(\..*|node_modules|vendor|target|dist|build|docs?|tests?|e2e|fixtures|examples?|__tests__|testdata)$/;
/** Folders of monorepos that hold a package in each of their own folders. */
const WORKSPACES = ['packages', 'apps', 'crates', 'services', 'libs', 'modules'];
const MOST_SOURCES = 3_000;

/** Shows the files of one folder of the project by their names from there. */
export function within(project: ProjectFiles, folder: string): ProjectFiles {
  if (folder === '') return project;
  const at = (name: string) => (name === '' ? folder : `${folder}/${name}`);
  return {
    exists: (name) => project.exists(at(name)),
    text: (name) => project.text(at(name)),
    list: (name) => project.list(at(name)),
  };
}

/** Lists the folders in which a tool may live: the top, those in it, and the packages of a monorepo. */
export function homesIn(project: ProjectFiles): string[] {
  const first = foldersIn(project, '');
  const packages = first.filter((name) => WORKSPACES.includes(name));
  return ['', ...first, ...packages.flatMap((name) => foldersIn(project, name))];
}

function foldersIn(project: ProjectFiles, folder: string): string[] {
  return project
    .list(folder)
    .filter((name) => !IGNORED.test(name))
    .map((name) => (folder === '' ? name : `${folder}/${name}`))
    .filter((name) => project.list(name).length > 0);
}

export function firstFile(project: ProjectFiles, ...names: string[]): string | undefined {
  return names.find((name) => project.exists(name));
}

export function firstFolder(project: ProjectFiles, ...names: string[]): string | undefined {
  return names.find((name) => project.list(name).length > 0);
}

export function containing(project: ProjectFiles, name: string, text: RegExp): string | undefined {
  return text.test(project.text(name)) ? name : undefined;
}

/** Finds a source file, however deep, whose text matches; tests, examples and packages of others are left out. */
export function sourceWith(project: ProjectFiles, ending: string, text: RegExp): string | undefined {
  const waiting = [''];
  let looked = 0;
  for (let folder = waiting.shift(); folder !== undefined; folder = waiting.shift()) {
    for (const name of project.list(folder)) {
      if (++looked > MOST_SOURCES) return undefined;
      const file = folder === '' ? name : `${folder}/${name}`;
      if (name.endsWith(ending)) {
        if (!/_test\.\w+$/.test(name) && text.test(project.text(file))) return file;
      } else if (!name.includes('.') && !IGNORED.test(name)) waiting.push(file);
    }
  }
  return undefined;
}

/** Finds a folder with migrations that have the mark of their tool in their text, or in their names. */
export function folderMarked(
  project: ProjectFiles,
  folders: readonly string[],
  { text, name = /\.sql$/ }: { readonly text?: RegExp; readonly name?: RegExp },
): string | undefined {
  return folders.find((folder) => {
    const first = project.list(folder).find((each) => name.test(each));
    return first !== undefined && (text === undefined || text.test(project.text(`${folder}/${first}`)));
  });
}
