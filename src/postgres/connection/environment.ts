import { existsSync, readFileSync, statSync } from 'node:fs';
import { homedir, userInfo } from 'node:os';
import { resolve } from 'node:path';

/** Everything that the search for the target may read, so that it depends on nothing else. */
export interface Environment {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The folder that `./.env` is in. */
  readonly folder: string;
  readonly home: string;
  /** The operating system's user. */
  readonly user: string;
  /** undefined if the file does not exist or cannot be read. */
  readFile(path: string): string | undefined;
  /** The file is accessible to its owner only. */
  isPrivate(path: string): boolean;
  exists(path: string): boolean;
}

export function readEnvironment(env: Environment['env'], folder: string): Environment {
  return {
    env,
    folder,
    home: homeFolder(env.HOME),
    user: userName(env),
    readFile: (path) => {
      try {
        return readFileSync(resolve(folder, path), 'utf8');
      } catch {
        return undefined;
      }
    },
    isPrivate: (path) => {
      try {
        const stat = statSync(resolve(folder, path));
        return stat.isFile() && (stat.mode & 0o077) === 0;
      } catch {
        return false;
      }
    },
    exists: existsSync,
  };
}

export function userName(env: Environment['env']): string {
  try {
    return userInfo().username;
  } catch {
    // In containers the user id often has no name.
    return env.USER || 'postgres';
  }
}

/** The home of Debian's users that have none. */
const NO_HOME = '/nonexistent';

/**
 * Returns the folder of the user's own files: HOME, else that of the system's list of users. A user of a container may be in no list;
 * the folder does not exist then.
 */
export function homeFolder(home = process.env.HOME): string {
  if (home) return home;
  try {
    return homedir();
  } catch {
    return NO_HOME;
  }
}
