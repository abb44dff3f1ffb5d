import type { Child } from './mention.ts';

/** A part of a login that is given separately from its URL. */
interface Part {
  /** The given value; undefined if there is none yet. */
  readonly value: string | undefined;
  write(child: Child, value: string): void;
}

/** User and password that accompany a JDBC URL, which rarely contains them. */
export type JdbcLogin = ReturnType<typeof loginOfArgument>;

type Variables = Readonly<Record<string, string>>;

/** The part of a name that means "URL"; before it is the prefix shared with the other variables. */
const URL_PART = /(?:URL|URI|DSN)$/;
const USER_PARTS = ['USERNAME', 'USER'];
const PASSWORD_PARTS = ['PASSWORD', 'PASS'];

/** `-user=`, `--username x`, `-Dflyway.user=`, `-Pflyway.password=`: one word, or two. */
const USER_OPTION = /^--?(?:[DP][\w.]*\.)?user(?:name)?(=|$)/i;
const PASSWORD_OPTION = /^--?(?:[DP][\w.]*\.)?password(=|$)/i;

/** The tools' own variables, which take precedence over their files. */
const TOOLS: readonly { word: RegExp; prefix: string; user: string }[] = [
  { word: /flyway/i, prefix: 'FLYWAY_', user: 'USER' },
  { word: /liquibase/i, prefix: 'LIQUIBASE_COMMAND_', user: 'USERNAME' },
];

/** Finds the login of a JDBC URL in a variable: SPRING_DATASOURCE_URL, …_USERNAME, …_PASSWORD; or options of the command. */
export function loginOfVariable(name: string, values: Variables, argv: readonly string[]): JdbcLogin {
  const prefix = prefixOf(name, values);
  if (prefix === undefined) return { user: undefined, password: undefined };
  return {
    user: option(argv, USER_OPTION) ?? variable(prefix, USER_PARTS, values),
    password:
      option(argv, PASSWORD_OPTION) ??
      variable(prefix, PASSWORD_PARTS, values) ??
      absent(`${prefix}PASSWORD`),
  };
}

/**
 * JDBC_URL belongs to JDBC_USER, and DATASOURCE_JDBC_URL to DATASOURCE_USERNAME. Without a prefix there is nothing to find: USER is
 * the user of the operating system.
 */
function prefixOf(name: string, values: Variables): string | undefined {
  if (!URL_PART.test(name)) return undefined;
  const whole = name.replace(URL_PART, '');
  const prefixes = [whole, whole.replace(/JDBC_$/, '')].filter((prefix) => prefix !== '');
  const has = (prefix: string) => [...USER_PARTS, ...PASSWORD_PARTS].some((part) => values[prefix + part]);
  return prefixes.find(has) ?? prefixes[0];
}

/** Finds the login of a JDBC URL in an argument: other options, or the tool's own variables. */
export function loginOfArgument(argv: readonly string[], values: Variables) {
  const tool = TOOLS.find(({ word }) => argv.some((argument) => word.test(argument)));
  const inVariables = (parts: readonly string[], own: string) =>
    tool && (variable(tool.prefix, parts, values) ?? absent(tool.prefix + own));
  return {
    user: option(argv, USER_OPTION) ?? inVariables(USER_PARTS, tool?.user ?? ''),
    password: option(argv, PASSWORD_OPTION) ?? inVariables(PASSWORD_PARTS, 'PASSWORD'),
  };
}

function variable(prefix: string, parts: readonly string[], values: Variables): Part | undefined {
  const name = parts.map((part) => prefix + part).find((key) => values[key]);
  return name === undefined ? undefined : { ...absent(name), value: values[name] };
}

/** Sets the variable, which takes precedence over a value in the tool's files. */
function absent(name: string): Part {
  return {
    value: undefined,
    write: (child, value) => {
      child.env[name] = value;
    },
  };
}

function option(argv: readonly string[], name: RegExp): Part | undefined {
  const index = argv.findIndex((argument, at) => at > 0 && name.test(argument));
  const word = argv[index];
  if (word === undefined) return undefined;
  const equals = word.indexOf('=');
  const [at, before] = equals < 0 ? [index + 1, ''] : [index, word.slice(0, equals + 1)];
  const value = argv[at]?.slice(before.length);
  if (!value) return undefined;
  return {
    value,
    write: (child, text) => {
      child.argv[at] = before + text;
    },
  };
}
