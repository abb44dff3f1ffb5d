import { NODE_TOOLS } from './node-tools.ts';
import { OTHER_TOOLS } from './other-tools.ts';
import { type FoundTool, homesIn, type ProjectFiles, within } from './project-files.ts';

/** A migration tool that was recognised, and how its migrations are run from the top of the project. */
export interface DetectedTool extends Required<Omit<FoundTool, 'atTop' | 'folder'>> {
  readonly name: string;
  /** The folder with its migrations; undefined if none was found. `**` stands for any folders. */
  readonly folder: string | undefined;
}

/** Recognises the migration tools of a project by its files, each where it is most complete; those at the top come first. */
export function detectTools(project: ProjectFiles): DetectedTool[] {
  const homes = homesIn(project);
  const found = [...NODE_TOOLS, ...OTHER_TOOLS].flatMap((rule) => {
    const places = homes.flatMap((home) => {
      const tool = rule.find(within(project, home), project);
      return tool === undefined ? [] : [{ home, tool }];
    });
    const best = places.find(({ tool }) => tool.folder !== undefined) ?? places[0];
    return best === undefined ? [] : [{ ...best, name: rule.name }];
  });
  return [...found.filter(({ home }) => home === ''), ...found.filter(({ home }) => home !== '')].map(
    ({ home, tool, name }) => fromTop(name, tool, home),
  );
}

function fromTop(name: string, tool: FoundTool, home: string): DetectedTool {
  const { command, atTop = false, urlEnv = 'DATABASE_URL', needsUrl = false, isLibrary = false } = tool;
  const at = (file: string) => (home === '' ? file : `${home}/${file}`);
  const entered = home === '' || atTop || isLibrary ? command : `sh -c 'cd ${home} && ${command}'`;
  const folder = tool.folder === undefined ? undefined : at(tool.folder);
  const evidence = home === '' ? tool.evidence : `${tool.evidence}, in ${home}`;
  return { name, evidence, command: entered, urlEnv, needsUrl, isLibrary, folder };
}
