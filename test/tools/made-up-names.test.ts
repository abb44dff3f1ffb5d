import { cp, mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { apply } from '../helpers/apply.ts';
import { runProgram } from '../helpers/cli.ts';
import { type TemporaryDatabase, temporaryDatabase } from '../helpers/database.ts';
import { skipReason } from '../helpers/requirements.ts';
import { useOwnServers } from '../helpers/servers.ts';
import { inThisShare } from '../helpers/share.ts';
import { fingerprintOf } from '../helpers/target-state.ts';
import { toolchain } from '../helpers/toolchains.ts';
import { PYTHON } from '../helpers/tools.ts';

const PROGRAMS = fileURLToPath(new URL('../../fixtures/made-up-names', import.meta.url));
const installed = await toolchain('made-up-names', PROGRAMS, {
  ...PYTHON,
  pins: ['requirements.txt', 'package.json'],
  install: [...PYTHON.install, ['npm', 'install', '--silent', '--no-audit', '--no-fund']],
});

/** Each makes the table `first`, reads through a cursor whose name it makes up, and makes the table `second`. */
const CHAINS: readonly (readonly [string, string[]])[] = [
  ['psycopg2 with named cursors, with and without hold', ['python', 'psycopg2_cursors.py']],
  ['SQLAlchemy with stream_results over psycopg2', ['python', 'sqlalchemy_stream.py', 'psycopg2']],
  ['SQLAlchemy with stream_results over psycopg', ['python', 'sqlalchemy_stream.py', 'psycopg']],
  ['Django with iterator()', ['python', 'manage.py', 'migrate']],
  ['pg-cursor and a cursor of SQL', ['node', 'portal.mjs']],
  ['temporary tables, prepared statements and savepoints', ['python', 'temporary.py']],
];

const SETUP =
  'CREATE TABLE jobs (id int PRIMARY KEY, note text); INSERT INTO jobs SELECT generate_series(1, 200)';

describe.skipIf('missing' in installed && skipReason(installed.missing))(
  'an apply of a command that makes up the names in its session',
  () => {
    const chain = 'missing' in installed ? '' : installed.folder;
    let folder: string;
    let direct: TemporaryDatabase;
    let target: TemporaryDatabase;

    beforeAll(async () => {
      await useOwnServers(18);
      folder = await mkdtemp(path.join(tmpdir(), 'sm-names-'));
      await cp(PROGRAMS, folder, { recursive: true });
      await symlink(path.join(chain, 'node_modules'), path.join(folder, 'node_modules'));
    });

    beforeEach(async () => {
      direct = await temporaryDatabase(18, { sql: SETUP });
      target = await temporaryDatabase(18, { sql: SETUP });
      return async () => {
        await direct.drop();
        await target.drop();
      };
    });

    afterAll(() => rm(folder, { recursive: true }));

    test.each(inThisShare(CHAINS))(
      '%s ends as the command alone does',
      async (_what, [program = '', ...args]) => {
        const command = [program === 'python' ? path.join(chain, 'bin/python') : program, ...args];
        const alone = await runProgram(command, { folder, env: { DATABASE_URL: direct.url } });
        expect(alone.exitCode, alone.stderr).toBe(0);
        const { exitCode, stderr, apply: applied } = await apply(target.url, command, { folder });
        expect(applied, stderr).toMatchObject({ outcome: 'applied', schemaEqual: true });
        expect(applied.during?.diverged).toEqual([]);
        expect(exitCode).toBe(0);
        expect(await fingerprintOf(target.url)).toBe(await fingerprintOf(direct.url));
      },
    );
  },
);
