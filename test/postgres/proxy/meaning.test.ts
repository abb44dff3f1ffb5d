import { describe, expect, test } from 'vitest';
import type { ServerVersion } from '../../../src/local-server/binaries.ts';
import { temporaryDatabase, withClient } from '../../helpers/database.ts';
import { GUARDED, withProxy } from '../../helpers/proxy.ts';
import { RawClient } from '../../helpers/raw-client.ts';
import { OLDEST_AND_NEWEST, shareOf } from '../../helpers/servers.ts';
import { SETUP, STATE, STRINGS } from './meaning-corpus.ts';

const ANEW = `drop schema public cascade; create schema public; grant all on schema public to public; ${SETUP}`;
const PREPARED = 'select gid from pg_prepared_xacts where database = current_database()';

/** Numbers that differ from run to run: of processes, objects and files. */
function comparable(told: string[]): string[] {
  return told.map((line) =>
    line
      .replace(/^A ".{4,24}?(a\\u0000)/, 'A "$1')
      .replaceAll(/test_[0-9a-f]{12}/g, 'the database')
      .replaceAll(/\b\d{5,}\b/g, 'N'),
  );
}

function firstDifference(expected: string[], got: string[]): string | undefined {
  const at = expected.findIndex((line, index) => got[index] !== line);
  if (at === -1 && got.length === expected.length) return undefined;
  return `  directly:  ${expected[at]}\n  through:   ${got[at]}`;
}

/** In which order the server reports several parameters means nothing, and differs between versions. */
function sortParameters(told: string[]): string[] {
  const sorted: string[] = [];
  for (const line of told) {
    let at = sorted.length;
    while (line.startsWith('S ') && (sorted[at - 1] ?? '') > line && sorted[at - 1]?.startsWith('S ')) at--;
    sorted.splice(at, 0, line);
  }
  return sorted;
}

interface Told {
  readonly lines: string[];
  /** What the database holds afterwards, as far as it is looked at. */
  readonly state: string;
}

async function answers(url: string, text: string, opening: string): Promise<Told> {
  const client = await RawClient.connect(url);
  try {
    const told = opening === '' ? [] : await client.query(opening);
    told.push(...(await client.query(text)), '-- afterwards');
    if (!told.at(-2)?.includes('I')) told.push(...(await client.query('rollback')));
    const state: string[] = [];
    for (const query of STATE) state.push(...(await client.query(query)));
    return { lines: sortParameters(comparable([...told, ...state])), state: comparable(state).join('\n') };
  } finally {
    await client.close();
  }
}

async function restore(url: string): Promise<void> {
  await withClient(url, async (client) => {
    const { rows } = await client.query<{ gid: string }>(PREPARED);
    for (const { gid } of rows) await client.query(`rollback prepared '${gid}'`);
    await client.query(ANEW);
  });
}

/** Most texts change nothing that lasts, and making everything anew takes longer than they do. */
const MAY_CHANGE_MORE = /\b(create|alter|drop|comment|grant|revoke|prepare|import|security|do|call)\b/i;

/** A database that is made anew when a text may have left something in it. */
class Fresh {
  readonly #url: string;
  #initial: string | undefined;
  #changed = true;

  constructor(url: string) {
    this.#url = url;
  }

  async ready(): Promise<void> {
    if (this.#changed) await restore(this.#url);
    this.#changed = false;
    this.#initial ??= (await answers(this.#url, 'select', '')).state;
  }

  after(text: string, opening: string, { state }: Told): void {
    this.#changed = state !== this.#initial || (opening === '' && MAY_CHANGE_MORE.test(text));
  }

  /** What others see of it goes as well. */
  async forget(): Promise<void> {
    this.#changed = true;
    await this.ready();
  }
}

/** What goes as it came differs little between versions: each gets a half of it. */
function textsFor(version: ServerVersion, asItCame: boolean): string[] {
  if (!asItCame) return shareOf(version, STRINGS);
  return STRINGS.filter((_, index) => index % 2 === (version === 19 ? 1 : 0));
}

describe.each(OLDEST_AND_NEWEST)('on PostgreSQL %s, a text through the proxy', (version) => {
  test.each<[string, string, typeof GUARDED | Record<string, never>]>([
    ['alone', '', {}],
    ['in a transaction', 'begin', {}],
    // A failed transaction refuses everything in all versions alike.
    ...(version === 19
      ? ([['in a failed transaction', 'begin; select 1/0', {}]] as [string, string, Record<string, never>][])
      : []),
    ['alone, on the way to a target', '', GUARDED],
  ])(
    'gets the answers and leaves the state of one sent directly, %s',
    async (_name, opening, options) => {
      const direct = await temporaryDatabase(version);
      const proxied = await temporaryDatabase(version);
      const places = { direct: new Fresh(direct.url), proxied: new Fresh(proxied.url) };
      /** What is of the whole server, and would be in the way of the second run. */
      const forget = async () => {
        await places.direct.forget();
        await places.proxied.forget();
        await withClient(direct.url, (client) => client.query('drop database if exists nested_database'));
      };
      const different: string[] = [];
      await withProxy(proxied.url, options, async ({ url }) => {
        for (const text of textsFor(version, options === GUARDED)) {
          const shared = /nested_database|prepare transaction/.test(text);
          await places.direct.ready();
          const expected = await answers(direct.url, text, opening);
          places.direct.after(text, opening, expected);
          if (shared) await forget();
          await places.proxied.ready();
          const got = await answers(url, text, opening);
          places.proxied.after(text, opening, got);
          if (shared) await forget();
          const difference = firstDifference(expected.lines, got.lines);
          if (difference !== undefined) different.push(`${text}\n${difference}`);
        }
      });
      await restore(proxied.url);
      expect(different).toEqual([]);
    },
    120_000,
  );
});
