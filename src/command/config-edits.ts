import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import type { Pair, ReadFile } from './config-pairs.ts';
import type { Edit } from './mention.ts';
import { DEFAULT_PORT } from './split-variables.ts';
import { demandsTls } from './url-mentions.ts';

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
