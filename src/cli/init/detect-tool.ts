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

/**
 * Services that a wrapper around a migration command asks for secrets, by their words in a script: with their addresses, if these
 * are the same for all users, or else the words to advise.
 */
const SERVICES: readonly {
  readonly called: RegExp;
  readonly places?: readonly string[];
  readonly advice?: string;
}[] = [
  { called: /\bdoppler\s+run\b/, places: ['api.doppler.com:443'] },
  { called: /\binfisical\s+run\b/, places: ['app.infisical.com:443'] },
  {
    called: /\bop\s+(run|inject|read)\b/,
    advice: "1Password: your account's host, as my.1password.com:443",
  },
  {
    called: /\bvault\s+(kv|read|agent)\b/,
    advice: 'Vault: host and port of VAULT_ADDR, as vault.example:8200',
  },
  {
    called: /\baws\s+(secretsmanager|ssm|rds)\b|\baws-vault\s+exec\b|\bchamber\s+exec\b/,
    advice: 'AWS: the host of its service in your region, as secretsmanager.eu-central-1.amazonaws.com:443',
  },
  {
    called: /\bgcloud\s+(secrets|sql|auth)\b/,
    places: ['secretmanager.googleapis.com:443', 'oauth2.googleapis.com:443'],
  },
];

/** Finds what the project's command reaches besides the database, as far as its scripts show that, for the sandbox to let through. */
export function outsideServices(
  { command }: Pick<DetectedTool, 'command'>,
  project: ProjectFiles,
): { readonly places: readonly string[]; readonly notes: readonly string[] } {
  const texts = [command, ...migrationScripts(project)].join('\n');
  const found = SERVICES.filter(({ called }) => called.test(texts));
  const notes = found.flatMap(({ advice }) =>
    advice === undefined ? [] : [`Add to permit in the configuration, for ${advice}.`],
  );
  return { places: found.flatMap(({ places = [] }) => places), notes };
}

/** Scripts of package.json and of the files that wrap a migration; all of them, since one calls another. */
function migrationScripts(project: ProjectFiles): string[] {
  return [
    ...packageScripts(project.text('package.json')),
    project.text('migrate.sh'),
    project.text('Makefile'),
  ];
}

function packageScripts(text: string): string[] {
  try {
    const { scripts = {} } = JSON.parse(text || '{}') as { scripts?: Record<string, unknown> };
    return Object.values(scripts).map(String);
  } catch {
    return [];
  }
}
