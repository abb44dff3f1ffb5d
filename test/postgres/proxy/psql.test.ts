import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryDatabase } from '../../helpers/database.ts';
import { withProxy } from '../../helpers/proxy.ts';
import { OLDEST_AND_NEWEST } from '../../helpers/servers.ts';

const SCRIPT = `
\\set VERBOSITY verbose
create table t (id serial primary key, v text not null);
insert into t (v) values ('ä'), ('b');
\\copy t (v) from stdin
c
d
\\.
begin;
alter table t add column n int default 5;
savepoint a;
insert into t (v) values (null);
rollback to a;
commit;
select * from t order by id \\; select count(*) from t;
\\copy t to stdout
create index concurrently t_v on t (v);
vacuum analyze t;
do $$ begin raise notice 'on the way'; end $$;
select 1/0;
\\d t
select v, n from t order by id \\gdesc
set client_encoding = 'LATIN1';
select 'ä';
listen news;
notify news, 'read';
`;

function psql(args: string[]): Promise<{ code: unknown; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    execFile('psql', ['-X', ...args], (error, stdout, stderr) =>
      resolve({
        code: error?.code ?? 0,
        stdout,
        stderr: stderr.replace(/with PID \d+/g, 'with PID N'),
      }),
    );
  });
}

test.each(OLDEST_AND_NEWEST)(
  'psql does the same through the proxy as directly, on PostgreSQL %s',
  async (version) => {
    const folder = await mkdtemp(join(tmpdir(), 'psql-'));
    const file = join(folder, 'script.sql');
    await writeFile(file, SCRIPT);
    try {
      for (const args of [
        ['-f', file],
        ['-1f', file],
        ['-v', 'ON_ERROR_STOP=1', '-f', file],
        ['-c', 'create table t (); select 1; select nosuch'],
      ]) {
        const direct = await temporaryDatabase(version);
        const proxied = await temporaryDatabase(version);
        const expected = await psql([direct.url, ...args]);
        const got = await withProxy(proxied.url, {}, ({ url }) => psql([url, ...args]));
        const withoutPids = (text: string) => text.replace(/PID \d+/g, 'PID N');
        expect({ ...got, stdout: withoutPids(got.stdout) }).toEqual({
          ...expected,
          stdout: withoutPids(expected.stdout),
        });
        expect(expected.stdout + expected.stderr).not.toBe('');
      }
    } finally {
      await rm(folder, { recursive: true });
    }
  },
);
