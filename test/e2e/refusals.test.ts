import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { type CliOptions, safemigrate, sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { type TemporaryDatabase, temporaryDatabase, withClient } from '../helpers/database.ts';
import { ownServer } from '../helpers/own-server.ts';
import { useOwnServers } from '../helpers/servers.ts';
import { withDatabase } from '../helpers/target-state.ts';

let target: TemporaryDatabase;

beforeAll(() => useOwnServers(18));

beforeAll(async () => {
  target = await temporaryDatabase(18);
});

afterAll(() => target.drop());

/** A refusal is one message that starts with our name, is a sentence, says what to do, and shows no stack. */
async function refused(args: string[], options: CliOptions = {}) {
  const { exitCode, stdout, stderr: all } = await safemigrate(args, options);
  // On a slow machine, what went well before is told as well.
  const stderr = all.replace(/^✓ .*\n/gm, '');
  expect(stdout).toBe('');
  expect(stderr).toMatch(/^safemigrate: ("|--|[A-Z0-9/])/);
  expect(stderr).toMatch(/[.:)]( \(SQLSTATE \w{5}\))?\n {2}\S/);
  expect(stderr).not.toMatch(/^\s+at .*:\d+:\d+/m);
  expect(stderr).not.toContain('[object Object]');
  return { exitCode, stderr };
}

const MIGRATION = ['--', ...sqlCommand('SELECT 1')];

describe('wrong usage is exit code 2', () => {
  const env = { DATABASE_URL: 'postgresql://nobody:opensesame@localhost:1/nothing' };

  test.each<[string, string[], RegExp]>([
    ['nothing at all', [], /no command to rehearse[\s\S]*safemigrate -- /],
    ['dashes without a command', ['--'], /no command to rehearse/],
    ['an empty command', ['--', ''], /command after -- is empty/],
    ['a command without the dashes', ['npx', 'foo', '--bar'], /safemigrate -- npx foo --bar/],
    ['a word before the dashes', ['npx', '--', 'foo'], /Unexpected argument "npx" before "--"/],
    ['a subcommand before a command', ['list', '--', 'foo'], /Unexpected argument "list" before "--"/],
    ['an unknown option', ['--paln', ...MIGRATION], /--paln.*Did you mean --plan/],
    ['an option without its value', ['--report'], /--report <file>.*missing/],
    [
      'an option of the run for a subcommand',
      ['--keep', 'list'],
      /--keep is no option of `safemigrate list`/,
    ],
    [
      'a flag of modes that change the target',
      ['--yes', ...MIGRATION],
      /Unknown option '--yes'[\s\S]*--yes is an option of safemigrate apply and safemigrate swap/,
    ],
    [
      'limits and permissions of other modes',
      ['--limit', 'lag=1MB', '--permit', 'standbys', ...MIGRATION],
      /--limit lag is an option of safemigrate apply\.[\s\S]*--permit standbys is an option of safemigrate swap\./,
    ],
    ['a flag of an apply for a swap', ['swap', '--retries', '3', ...MIGRATION], /of safemigrate apply\./],
    ['a mode as it was written before', ['--apply', ...MIGRATION], /Write safemigrate apply -- COMMAND/],
    ['both ways to change the target', ['apply', 'swap', ...MIGRATION], /Unexpected argument "swap"/],
    ['an apply without a command', ['apply', '--yes'], /no command to rehearse[\s\S]*safemigrate apply -- /],
    ['a swap without the dashes', ['swap', 'npx', 'foo', '--bar'], /safemigrate swap -- npx foo --bar/],
    ['a word too many for a subcommand', ['clean', 'everything'], /Too many arguments/],
    [
      'an option twice',
      ['--timeout', '1s', '--timeout', '2s', ...MIGRATION],
      /--timeout can be given only once/,
    ],
    ['a report of an unknown kind', ['--report', 'r.doc', ...MIGRATION], /r\.doc.*must end in \.json/],
    [
      'a program that is not there',
      ['--', 'no-such-program'],
      /"no-such-program" cannot be started.*not in PATH/,
    ],
    ['a command quoted as a whole', ['--', 'npx prisma migrate'], /without quotes around them all/],
    ['a variable before the command', ['--', 'A=b', 'npx'], /safemigrate -- env A=b/],
    ['a folder', ['--', '/tmp'], /is a folder/],
  ])('%s', async (_what, args, expected) => {
    const { exitCode, stderr } = await refused(args, { env });
    expect(exitCode).toBe(2);
    expect(stderr).toMatch(expected);
  });

  test('a program that is not executable, or whose interpreter is missing', async () => {
    const folder = temporaryFolder();
    writeFileSync(path.join(folder, 'plain'), '#!/bin/sh\n', { mode: 0o644 });
    writeFileSync(path.join(folder, 'script'), '#!/no/such/interpreter\n', { mode: 0o755 });
    const plain = await refused(['--', './plain'], { env, folder });
    expect(plain.stderr).toMatch(/not executable[\s\S]*chmod \+x \.\/plain/);
    expect(plain.exitCode).toBe(2);
    const script = await safemigrate(['--', './script'], { env, folder });
    expect(script.stderr).toContain('its interpreter /no/such/interpreter does not exist');
    expect(script.exitCode).toBe(2);
  });

  test('all mistakes are told at once, each by the name under which it was written', async () => {
    const folder = temporaryFolder();
    const config = { clone: 'magic', kepp: true, disconnect: 'idle', checkpoint: ['fast', 'spread'] };
    writeFileSync(path.join(folder, 'safemigrate.config.json'), JSON.stringify(config));
    const variables = { SAFEMIGRATE_MAX_STALL: '5', SAFEMIGRATE_KEEP: 'perhaps' };
    const { exitCode, stderr } = await refused(['--timeout', 'long', ...MIGRATION], {
      env: { ...env, ...variables },
      folder,
    });
    expect(exitCode).toBe(2);
    for (const mistake of [
      /7 options are wrong/,
      /--timeout is "long"/,
      /SAFEMIGRATE_MAX_STALL is "5"/,
      /SAFEMIGRATE_KEEP is "perhaps"/,
      /safemigrate\.config\.json: clone is "magic"/,
      /safemigrate\.config\.json: kepp is no option/,
      /safemigrate\.config\.json: disconnect cannot be set in a file/,
      /safemigrate\.config\.json: checkpoint can be given only once/,
    ])
      expect(stderr).toMatch(mistake);
  });

  test('a configuration that cannot be read, and two of them', async () => {
    const folder = temporaryFolder();
    writeFileSync(path.join(folder, 'safemigrate.config.json'), '{ "keep": ');
    const unreadable = await safemigrate(MIGRATION, { env, folder });
    expect(unreadable.exitCode).toBe(2);
    expect(unreadable.stderr).toMatch(/safemigrate\.config\.json cannot be read/);
    writeFileSync(path.join(folder, 'package.json'), '{ "safemigrate": {} }');
    const two = await refused(MIGRATION, { env, folder });
    expect(two.stderr).toMatch(/several configurations.*safemigrate\.config\.json, package\.json/);
  });

  test('a state folder that cannot be read', async () => {
    const folder = temporaryFolder();
    mkdirSync(path.join(folder, 'safemigrate'));
    for (const name of ['clones', 'runs']) writeFileSync(path.join(folder, 'safemigrate', name), '');
    for (const asked of ['list', 'show']) {
      const { exitCode, stderr } = await refused([asked], { env: { XDG_STATE_HOME: folder } });
      expect(stderr).toMatch(/cannot be read: ENOTDIR.*\n.*Set HOME or XDG_STATE_HOME/);
      expect(exitCode).toBe(2);
    }
  });

  test.each(['192.0.2.1', 'no such host'])(
    'a proxy that cannot listen at %s, before a clone is made',
    async (address) => {
      const { exitCode, stderr } = await refused(['--url', target.url, ...MIGRATION], {
        env: { SAFEMIGRATE_PROXY_LISTEN: address },
      });
      expect(stderr).toMatch(/SAFEMIGRATE_PROXY_LISTEN=.*\n.*The target was not touched/);
      expect(exitCode).toBe(2);
    },
  );

  test('no target: all the ways to name one', async () => {
    const { exitCode, stderr } = await refused(MIGRATION, { folder: temporaryFolder() });
    expect(exitCode).toBe(2);
    for (const way of ['--url ', 'DATABASE_URL', 'PGHOST', '.env']) expect(stderr).toContain(way);
  });

  test.each([
    ['mysql://root:opensesame@localhost/shop'],
    ['postgresql://app:opensesame@localhost:99999/shop'],
    ['postgresql://app:opensesame@localhost/shop?sslmode=never'],
    ['postgresql://app:open%ZZsesame@localhost/shop'],
    ['app:opensesame@localhost/shop'],
    ['postgresql://app:opensesame'],
    ['host=localhost password=open sesame'],
  ])('a URL that is none: %s', async (url) => {
    const { exitCode, stderr } = await safemigrate(MIGRATION, { env: { DATABASE_URL: url } });
    expect(exitCode).toBe(2);
    expect(stderr).toMatch(/^safemigrate: DATABASE_URL: /m);
    expect(stderr).not.toContain('sesame');
  });
});

describe('settings that are right', () => {
  test('flags go before SAFEMIGRATE_ variables, and these before the config file', async () => {
    const folder = temporaryFolder();
    writeFileSync(
      path.join(folder, 'safemigrate.config.mjs'),
      `export default { url: ${JSON.stringify(target.url)}, format: 'text', timeout: '1h' };`,
    );
    const fromFile = await safemigrate(MIGRATION, { folder });
    expect(fromFile.stdout).toContain('PASSED');
    const fromVariable = await safemigrate(MIGRATION, { folder, env: { SAFEMIGRATE_FORMAT: 'json' } });
    expect(JSON.parse(fromVariable.stdout)).toMatchObject({ target: { database: target.name } });
    const fromFlag = await safemigrate(['--format', 'text', ...MIGRATION], {
      folder,
      env: { SAFEMIGRATE_FORMAT: 'json' },
    });
    expect(fromFlag.stdout).toContain('PASSED');
  });
});

describe('what cannot be rehearsed is exit code 3', () => {
  const login = (change: (url: URL) => void): NodeJS.ProcessEnv => {
    const url = new URL(target.url);
    change(url);
    return { DATABASE_URL: url.href };
  };

  test('a server that is down', async () => {
    const { exitCode, stderr } = await refused(MIGRATION, { env: login((url) => (url.port = '1')) });
    expect(exitCode).toBe(3);
    expect(stderr).toContain('Nothing accepts connections at 127.0.0.1:1.');
  });

  test('a wrong password, which is not shown', async () => {
    const { exitCode, stderr } = await refused(MIGRATION, {
      env: login((url) => (url.password = 'opensesame')),
    });
    expect(exitCode).toBe(3);
    expect(stderr).toMatch(/does not accept the password of the role "postgres"/);
  });

  test('a database that does not exist', async () => {
    const { exitCode, stderr } = await refused(MIGRATION, {
      env: login((url) => (url.pathname = '/nowhere')),
    });
    expect(exitCode).toBe(3);
    expect(stderr).toContain('There is no database "nowhere"');
  });

  test('sessions in the way, each named, and the flag that would end them', async () => {
    await withClient(target.url, async (client) => {
      await client.query(`SET application_name = 'web worker'`);
      const { exitCode, stderr } = await refused(['--clone', 'template', ...MIGRATION], {
        env: { DATABASE_URL: target.url, SAFEMIGRATE_WAIT: '0' },
      });
      expect(exitCode).toBe(3);
      expect(stderr).toContain('web worker');
      expect(stderr).toContain('(waited 0 s)');
      expect(stderr).toContain('--disconnect idle');
      // Still there: nobody was disconnected.
      expect((await client.query('SELECT 1 AS alive')).rows).toEqual([{ alive: 1 }]);
    });
  });

  test('a copy for which new connections would wait longer than --limit stall allows', async () => {
    await withClient(target.url, async (client) => {
      const args = ['--clone', 'template', '--disconnect', 'all', '--limit', 'stall=1ms', ...MIGRATION];
      const { exitCode, stderr } = await refused(args, { env: { DATABASE_URL: target.url } });
      expect(exitCode).toBe(3);
      expect(stderr).toMatch(/new connections to it wait.*--limit stall allows 1\.0 ms/);
      expect((await client.query('SELECT 1 AS alive')).rows).toEqual([{ alive: 1 }]);
    });
  });

  describe('a role that may not', () => {
    let server: Server;

    beforeAll(async () => {
      server = await ownServer(18);
      await withClient(server.url, async (client) => {
        await client.query('CREATE DATABASE shop');
        await client.query(`CREATE ROLE app LOGIN PASSWORD 'opensesame'`);
        await client.query(`CREATE ROLE maker LOGIN CREATEDB PASSWORD 'opensesame'`);
      });
    });

    afterAll(() => server.stop());

    const as = (user: string) => {
      const url = new URL(withDatabase(server.url, 'shop'));
      url.username = user;
      url.password = 'opensesame';
      return { DATABASE_URL: url.href };
    };

    test('create databases: the GRANT that helps', async () => {
      const { exitCode, stderr } = await refused(MIGRATION, { env: as('app') });
      expect(exitCode).toBe(3);
      expect(stderr).toContain('CREATEDB;');
    });

    test('copy this one: its owner is named', async () => {
      const { exitCode, stderr } = await refused(MIGRATION, { env: as('maker') });
      expect(exitCode).toBe(3);
      expect(stderr).toContain('ALTER DATABASE "shop" OWNER TO "maker"');
    });
  });
});

describe('a command that was killed', () => {
  test('did not pass, and the signal is named', async () => {
    const killed = ['sh', '-c', '"$@"; kill -KILL $$', 'sh', ...sqlCommand('SELECT 1')];
    const { exitCode, stderr } = await safemigrate(['--', ...killed], { env: { DATABASE_URL: target.url } });
    expect(exitCode).toBe(1);
    expect(stderr).toContain('SIGKILL');
  });

  test('a script without execute permission for anybody is refused before the server is asked', async () => {
    const folder = temporaryFolder();
    const file = path.join(folder, 'migrate');
    writeFileSync(file, '#!/bin/sh\n');
    chmodSync(file, 0o600);
    const env = { DATABASE_URL: 'postgresql://localhost:1/x' };
    expect((await refused(['--', file], { env })).exitCode).toBe(2);
  });
});
