import { describe, expect, test } from 'vitest';
import { temporaryDatabase, withClient } from '../../helpers/database.ts';
import { withProxy } from '../../helpers/proxy.ts';
import { RawClient } from '../../helpers/raw-client.ts';
import { VERSIONS } from '../../helpers/servers.ts';
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

async function answers(url: string, text: string, opening: string): Promise<string[]> {
  const client = await RawClient.connect(url);
  try {
    const told = opening === '' ? [] : await client.query(opening);
    told.push(...(await client.query(text)), '-- afterwards');
    if (!told.at(-2)?.includes('I')) told.push(...(await client.query('rollback')));
    for (const state of STATE) told.push(...(await client.query(state)));
    return sortParameters(comparable(told));
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

describe.each(VERSIONS)('on PostgreSQL %s, a text through the proxy', (version) => {
  test.each([
    ['alone', ''],
    ['in a transaction', 'begin'],
    ['in a failed transaction', 'begin; select 1/0'],
  ])(
    'gets the answers and leaves the state of one sent directly, %s',
    async (_name, opening) => {
      const direct = await temporaryDatabase(version);
      const proxied = await temporaryDatabase(version);
      /** What is of the whole server, and would be in the way of the second run. */
      const forget = async () => {
        await restore(direct.url);
        await restore(proxied.url);
        await withClient(direct.url, (client) => client.query('drop database if exists nested_database'));
      };
      const different: string[] = [];
      await withProxy(proxied.url, {}, async ({ url }) => {
        for (const text of STRINGS) {
          const shared = /nested_database|prepare transaction/.test(text);
          await restore(direct.url);
          const expected = await answers(direct.url, text, opening);
          if (shared) await forget();
          await restore(proxied.url);
          const got = await answers(url, text, opening);
          if (shared) await forget();
          const difference = firstDifference(expected, got);
          if (difference !== undefined) different.push(`${text}\n${difference}`);
        }
      });
      await restore(proxied.url);
      expect(different).toEqual([]);
    },
    120_000,
  );
});
