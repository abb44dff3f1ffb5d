import { describe, expect, test } from 'vitest';
import { linesToRun, readDumpText } from '../../../src/rehearsal/from-file/dump-file.ts';

async function* lines(text: string): AsyncGenerator<string> {
  yield* Buffer.from(text).toString('latin1').split('\n');
}

const run = async (text: string, options: { major?: number; byPsql?: boolean } = {}) => {
  let result = '';
  for await (const line of linesToRun(lines(text), { major: 18, byPsql: true, ...options })) result += line;
  return result;
};

const read = (text: string) => readDumpText(lines(text));

describe('the text of a dump', () => {
  test('says which server it is of, also where a distribution added its own words', async () => {
    expect(await read('--\n-- Dumped from database version 15.18 (Debian 15.18-0+deb12u1)')).toMatchObject({
      version: '15.18',
    });
    expect(await read('CREATE TABLE t ()')).toMatchObject({ version: null, roles: [], needsPsql: false });
  });

  test.each([
    ['ALTER TABLE public.t OWNER TO app;', ['app']],
    ['ALTER TABLE public.t OWNER TO "The ""Owner""";', ['The "Owner"']],
    ['GRANT SELECT,INSERT ON TABLE t TO reader WITH GRANT OPTION;', ['reader']],
    ['GRANT ALL ON SCHEMA public TO PUBLIC;', []],
    ['REVOKE ALL ON TABLE t FROM app;', ['app']],
    [
      'ALTER DEFAULT PRIVILEGES FOR ROLE maker IN SCHEMA s GRANT SELECT ON TABLES TO reader;',
      ['maker', 'reader'],
    ],
    ['CREATE POLICY p ON t FOR SELECT TO a, "B" USING (true);', ['a', 'B']],
    ["SET SESSION AUTHORIZATION 'grantor';", ['grantor']],
    ['ALTER TABLE t OWNER TO größe;', ['größe']],
    ['GRANT pg_read_all_data TO pg_monitor;', []],
  ])('names the roles in %s', async (text, roles) => {
    expect((await read(text)).roles).toEqual(roles);
  });

  test('has no roles, no databases and no version in its rows', async () => {
    const text = 'COPY t (a) FROM stdin;\nALTER TABLE t OWNER TO nobody;\n\\connect x\n\\.\nSELECT 1;';
    expect(await read(text)).toEqual({
      version: null,
      database: null,
      roles: [],
      wholeCluster: false,
      needsPsql: true,
      complete: true,
    });
    expect(await run(text)).toBe(`${text}\n`);
  });

  test.each([
    ['SELECT 1;', true],
    ['COPY t (a) FROM stdin;\n1\n\\.', true],
    ['COPY t (a) FROM stdin;', false],
    ['COPY t (a) FROM stdin;\n1\n12', false],
    ['--\n-- PostgreSQL database dump\n--\n\nCREATE TABLE t ();', false],
    [
      '--\n-- PostgreSQL database dump\n--\n\nCREATE TABLE t ();\n--\n-- PostgreSQL database dump complete\n--',
      true,
    ],
  ])('%j is complete: %j', async (text, complete) => {
    expect((await read(text)).complete).toBe(complete);
  });

  test.each([
    ['\\connect shop', 'shop'],
    ['\\connect "My Shop"', 'My Shop'],
    [`\\connect -reuse-previous=on "dbname='it\\'s'"`, "it's"],
  ])('says by %s which database it makes, which is left out', async (connect, database) => {
    const text = `CREATE DATABASE shop WITH TEMPLATE = template0;\n${connect}\nSELECT 1;`;
    expect(await read(text)).toMatchObject({ database, needsPsql: false });
    expect(await run(text)).toBe('SELECT 1;\n');
  });

  test('is freed of what a server does not know', async () => {
    expect(await run('SET transaction_timeout = 0;\nSELECT 1;', { major: 16 })).toBe('SELECT 1;\n');
    expect(await run('SET transaction_timeout = 0;', { major: 17 })).toBe('SET transaction_timeout = 0;\n');
    expect(await run('\\restrict abc\nSELECT 1;\n\\unrestrict abc', { byPsql: false })).toBe('SELECT 1;\n');
    expect(await run('\\restrict abc', { byPsql: true })).toBe('\\restrict abc\n');
  });
});
