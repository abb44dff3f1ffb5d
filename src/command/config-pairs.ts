import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import { type ConnectionPart, partOf } from '../postgres/connection/split-names.ts';
import type { Edit } from './mention.ts';
import { DEFAULT_PORT } from './split-variables.ts';
import { demandsTls } from './url-mentions.ts';

// Configuration files are read by text, without their grammar: what counts is which keys stand next to each other. A file of code or
// JSON is divided by its brackets, a YAML file by its indentation, and INI and TOML files by their sections.

/** `key: value`, `key = value` or `"key": "value"` in a file. */
export interface Pair {
  readonly key: string;
  readonly value: string;
  /** Position of the value, without its quotes. */
  readonly start: number;
  readonly end: number;
  readonly quoted: boolean;
  /** Start and end of the whole pair. */
  readonly from: number;
  readonly to: number;
  /** Pairs of one block have the same. */
  readonly scope: number;
  /** Part of a connection that the key stands for. */
  readonly part: ConnectionPart | undefined;
  /** Prefixes of its name. */
  readonly prefixes: readonly string[];
}

export interface ReadFile {
  readonly pairs: readonly Pair[];
  /** The block around each block. */
  readonly parents: ReadonlyMap<number, number>;
  /** Further pairs of a line stand behind a comma, not on lines of their own. */
  readonly kind: FileKind;
}

type FileKind = 'code' | 'yaml' | 'sections';

const CODE = /\.(?:[cm]?[jt]sx?|json[5c]?|py|rb|php|exs?|kts?|groovy)$/i;
const YAML = /\.ya?ml$/i;

/** A default beside a variable: `process.env.DB_HOST || 'db'`, `os.getenv("DB_HOST", "db")`. */
const VARIABLE = String.raw`(?:(?:process\.env|import\.meta\.env)[\w.\[\]'"]*\s*(?:\|\||\?\?)\s*|[\w.]*(?:getenv|env|environ\.get|fetch|config)\(\s*["'][\w.]+["']\s*,\s*(?:default\s*=\s*)?)?`;
const VALUE = String.raw`(?:"((?:\\.|[^"\\\n])*)"|'((?:\\.|[^'\\\n])*)'|${'`'}([^${'`'}$]*)${'`'}|([\w.+-]+))`;
const PAIR_IN_CODE = new RegExp(
  String.raw`(["']?)(?<![\w.$])([A-Za-z_][\w.-]*)\1\s*(?::|=>|=)\s*${VARIABLE}${VALUE}`,
  'dg',
);
const PAIR_ON_LINE =
  /^([ \t]*(?:-[ \t]+)*)(?:export[ \t]+)?(["']?)([A-Za-z_][\w.-]*)\2[ \t]*[:=][ \t]*(?:"((?:\\.|[^"\\\n])*)"|'([^'\n]*)'|`([^`\n]*)`|([^\n]*?))[ \t]*(?:[ \t][#;][^\n]*)?$/dgm;
const SECTION = /^[ \t]*\[+[^\]\n]+\]+/gm;

export function readPairs(text: string, file: string): ReadFile {
  if (CODE.test(file)) return readCode(text, file.endsWith('.py') || file.endsWith('.rb') ? '#' : '//');
  return YAML.test(file) ? readYaml(text) : readSections(text);
}

type Placed = readonly [position: number, scope: number];

function readCode(text: string, comment: '#' | '//'): ReadFile {
  const parents = new Map<number, number>();
  const places: Placed[] = [[0, -1]];
  const open: number[] = [];
  for (const { 0: found, index } of text.matchAll(tokens(comment))) {
    if (/[([{]/.test(found)) {
      parents.set(index, open.at(-1) ?? -1);
      open.push(index);
    } else if (/[)\]}]/.test(found)) open.pop();
    else continue;
    places.push([index, open.at(-1) ?? -1]);
  }
  return { pairs: pairsOf(text, PAIR_IN_CODE, places, [2, 3]), parents, kind: 'code' };
}

/** Strings and comments are matched as wholes, so that the brackets in them do not count. */
function tokens(comment: '#' | '//'): RegExp {
  const rest = comment === '#' ? String.raw`#[^\n]*` : String.raw`\/\/[^\n]*|\/\*[\s\S]*?\*\/`;
  return new RegExp(
    String.raw`"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|${'`'}(?:\\.|[^${'`'}\\])*${'`'}|${rest}|[()[\]{}]`,
    'g',
  );
}

function readYaml(text: string): ReadFile {
  const parents = new Map<number, number>();
  const places: Placed[] = [[0, -1]];
  const open: { indent: number; scope: number }[] = [{ indent: -1, scope: -1 }];
  for (const { 0: line, index } of text.matchAll(/^[^\n]+$/gm)) {
    if (/^\s*(?:#|$)/.test(line)) continue;
    const indent = /^[ \t]*(?:-[ \t]+)*/.exec(line)?.[0].length ?? 0;
    const isItem = /^[ \t]*-/.test(line);
    while ((open.at(-1)?.indent ?? -1) > indent || (isItem && open.at(-1)?.indent === indent)) open.pop();
    if (open.at(-1)?.indent !== indent) {
      parents.set(index, open.at(-1)?.scope ?? -1);
      open.push({ indent, scope: index });
    }
    places.push([index, open.at(-1)?.scope ?? -1]);
  }
  return { pairs: [...pairsOf(text, PAIR_ON_LINE, places, [3, 4]), ...inline(text)], parents, kind: 'yaml' };
}

function readSections(text: string): ReadFile {
  const places: Placed[] = [
    [0, -1],
    ...[...text.matchAll(SECTION)].map(({ index }): Placed => [index, index]),
  ];
  return {
    pairs: [...pairsOf(text, PAIR_ON_LINE, places, [3, 4]), ...inline(text)],
    parents: new Map(),
    kind: 'sections',
  };
}

/** `db: {host: a, port: 1}` in YAML, and inline tables of TOML. */
function inline(text: string): Pair[] {
  return [...text.matchAll(/[:=][ \t]*\{[^{}\n]*\}/g)].flatMap(({ 0: table, index }) =>
    pairsOf(text, PAIR_IN_CODE, [[index, index]], [2, 3], [index, index + table.length]),
  );
}

function pairsOf(
  text: string,
  pattern: RegExp,
  places: readonly Placed[],
  [keyGroup, valueGroup]: readonly [number, number],
  [first, last]: readonly [number, number] = [0, text.length],
): Pair[] {
  let at = 0;
  return [...text.slice(0, last).matchAll(pattern)].flatMap((match) => {
    const index = [0, 1, 2, 3].find((each) => match[valueGroup + each] !== undefined);
    const span = index === undefined ? undefined : match.indices?.[valueGroup + index];
    const keySpan = match.indices?.[keyGroup];
    if (span === undefined || keySpan === undefined || index === undefined || match.index < first) return [];
    while ((places[at + 1]?.[0] ?? Number.POSITIVE_INFINITY) <= keySpan[0]) at += 1;
    const key = match[keyGroup] ?? '';
    const [start, end] = span;
    if (index === 3 && /^[{[]/.test(text.slice(start, end))) return [];
    return [
      {
        key,
        value: text.slice(start, end),
        start,
        end,
        quoted: index < 3,
        from: match.index,
        to: match.index + match[0].length,
        scope: places[at]?.[1] ?? -1,
        ...partOf(key),
      },
    ];
  });
}

/** The host, with its port where the file has it there, or else a new pair for the port behind it. */
export function addressEdits(
  pair: Pair,
  lacksPort: boolean,
  { hosts: [first] }: ConnectionSettings,
  text: string,
  { kind }: ReadFile,
): Edit[] {
  const { host = '', port = DEFAULT_PORT } = first ?? {};
  if (/:\d+$/.test(pair.value)) return [replaced(pair, `${host}:${port}`)];
  const edit = replaced(pair, host);
  if (!lacksPort) return [edit];
  const key = pair.key.replace(/(?:hostname|host|server|address|addr)$/i, (word) => inCaseOf(word, 'port'));
  const before = text
    .slice(pair.from, pair.start)
    .replace(pair.key, key)
    .replace(/["'`]$/, '');
  const line = text.slice(0, pair.from).split('\n').at(-1) ?? '';
  const between = kind === 'code' || /\{/.test(line) ? ', ' : '\n';
  return [edit, { start: pair.to, end: pair.to, text: `${between}${before}${port}` }];
}

function inCaseOf(word: string, other: string): string {
  if (word === word.toUpperCase()) return other.toUpperCase();
  return /^[A-Z]/.test(word) ? other.charAt(0).toUpperCase() + other.slice(1) : other;
}

/** The settings that demand TLS, in the block itself or in one inside it: `OPTIONS: {'sslmode': 'require'}`. */
export function tlsEdits(group: readonly Pair[], text: string, { pairs, parents, kind }: ReadFile): Edit[] {
  const scope = group[0]?.scope ?? -1;
  const isNear = (each: Pair) => each.scope === scope || parents.get(each.scope) === scope;
  const values = pairs
    .filter(
      (pair) => (pair.part === 'sslmode' || pair.part === 'ssl') && demandsTls(pair.value) && isNear(pair),
    )
    .map((pair) => replaced(pair, /^(?:true|1|on|yes)$/i.test(pair.value) ? falseOf(pair) : 'disable'));
  if (kind !== 'code') return values;
  const objects = [...text.matchAll(/\bssl\s*:\s*(\{[^{}]*\})/g)].filter(
    ({ 0: all, index }) => parents.get(index + all.indexOf('{')) === scope,
  );
  return [
    ...values,
    ...objects.map(({ 0: all, index }) => ({
      start: index + all.indexOf('{'),
      end: index + all.length,
      text: 'false',
    })),
  ];
}

function falseOf({ value }: Pair): string {
  return value === 'True' ? 'False' : value === '1' ? '0' : 'false';
}

export function replaced({ start, end }: Pair, text: string): Edit {
  return { start, end, text };
}
