import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';

/** Environment and arguments of the child process, which the mentions rewrite. */
export interface Child {
  readonly argv: string[];
  readonly env: Record<string, string>;
  /** Edits of the copies of configuration files, by the path of the original. */
  readonly edits: Map<string, readonly Edit[]>;
}

/** A text in the place of a part of a file. */
export interface Edit {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** A place in the environment or the arguments that contains a connection. */
export interface Mention {
  /** For the report: `DATABASE_URL`, `DATABASE_URL (from .env)`, `argument 3`, `DB_HOST, DB_NAME`. */
  readonly label: string;
  readonly settings: ConnectionSettings;
  /** It names a server of its own: POSTGRES_DB and POSTGRES_USER alone do not. */
  readonly namesServer: boolean;
  /** The password has to come from elsewhere, where the command looks for it. */
  readonly lacksPassword: boolean;
  /** Replaces the connection by another one. */
  apply(child: Child, entry: ConnectionSettings): void;
}

export interface Undecided {
  readonly name: string;
  readonly reason: string;
}

/** The variables that the command sees. The environment takes precedence over `./.env`, which many tools read themselves. */
export interface Variables {
  readonly env: Readonly<Record<string, string>>;
  readonly dotenv: ReadonlyMap<string, string>;
}

export function effective({ env, dotenv }: Variables): Record<string, string> {
  return { ...Object.fromEntries(dotenv), ...env };
}

export function labelOf(name: string, { env, dotenv }: Variables): string {
  return name in env || !dotenv.has(name) ? name : `${name} (from .env)`;
}
