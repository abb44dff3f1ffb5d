import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { PROGRAM, runProgram, temporaryFolder } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { CONFIGURATIONS, type Configuration } from '../helpers/configurations.ts';
import { LANGUAGES } from '../helpers/drivers.ts';
import { ownServer } from '../helpers/own-server.ts';
import { skipReason } from '../helpers/requirements.ts';
import { inThisShare } from '../helpers/share.ts';
import { digestOf, withDatabase } from '../helpers/target-state.ts';
import { toolchain } from '../helpers/toolchains.ts';

const PROGRAMS = fileURLToPath(new URL('../../fixtures/configurations', import.meta.url));
const PACKAGES = ['psycopg2', 'psycopg2_binary.libs', 'yaml', 'dotenv'];
const ORDINARY = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'];
/** Hides the programs that make a sandbox, so that Landlock restricts the command. */
const WITHOUT_SANDBOX = [
  ...['bwrap', '--dev-bind', '/', '/'],
  ...['bwrap', 'unshare'].flatMap((name) => ['--ro-bind', '/dev/null', `/usr/bin/${name}`]),
  '--',
];

const install = (name: 'node' | 'python' | 'go') =>
  toolchain(`drivers-${name}`, LANGUAGES[name].folder, LANGUAGES[name].toolchain);
const [node, python, go] = [await install('node'), await install('python'), await install('go')];
const missing = [node, python, go].flatMap((found) => ('missing' in found ? [found.missing] : []))[0] ?? null;

describe.skipIf(skipReason(missing) || process.getuid?.() !== 0)('a command whose connection is in', () => {
  let server: Server;
  let target: string;
  /** The programs and what they need, where every user can read them. */
  let installed: string;

  beforeAll(async () => {
    server = await ownServer(18);
    await withClient(server.url, (client) => client.query('CREATE DATABASE shop'));
    target = withDatabase(server.url, 'shop');
    installed = installForAll();
  });

  afterAll(async () => {
    rmSync(installed, { recursive: true, force: true });
    await server.stop();
  });

  const tables = () =>
    withClient(target, async (client) => {
      const { rows } = await client.query('SELECT FROM pg_tables WHERE schemaname = $1', ['public']);
      return rows.length;
    });

  /** Runs a command of a project as its user, who has nothing of safemigrate's yet. */
  async function run(
    { user, clone, env = {} }: Pick<Configuration, 'env'> & { user: readonly string[]; clone: string },
    project: string,
    words: readonly string[],
    folder = '',
  ) {
    const inProject = (word: string) => filled(word, target, project, installed);
    const args = ['--verbose', '--clone', clone, '--url', target, '--', ...words.map(inProject)];
    const own = Object.entries(env).map(([name, value]) => [name, inProject(value)]);
    return runProgram([...user, ...PROGRAM, ...args], {
      folder: path.join(project, folder),
      env: {
        ...Object.fromEntries(own),
        HOME: project,
        XDG_STATE_HOME: path.join(project, 'state'),
        PYTHONPATH: path.join(installed, 'site-packages'),
        PYTHONDONTWRITEBYTECODE: '1',
      },
      commandTellsPasswords: true,
    });
  }

  // Each place by one of them: what a place is has nothing to do with who reads it.
  describe.each([
    { who: 'root, with a clone of the cluster', clone: 'cluster', user: [], own: 0 },
    { who: 'an ordinary user, with a clone in the same server', clone: 'template', user: ORDINARY, own: 1 },
  ])('$who', ({ clone, user, own }) => {
    const rows = CONFIGURATIONS.filter((_, at) => at % 2 === own);
    let before: Awaited<ReturnType<typeof digestOf>>;
    beforeEach(async () => {
      before = await digestOf(target);
    });
    afterEach(async () => {
      expect(await tables()).toBe(0);
      expect(await digestOf(target)).toEqual(before);
    });

    const share = inThisShare(
      rows,
      ({ advised, command: [program = ''] }) =>
        `${['node', '{python}'].includes(program) ? program : 'another'} ${advised === undefined}`,
    );
    test.each(share.map((row) => ({ ...row, where: row.name })))('$where', async (row) => {
      const project = makeProject([['', row]], installed, target);
      const way = { ...row, user, clone };
      const { exitCode, stdout, stderr } = await run(way, project, row.command, row.folder);
      const said = (stdout + stderr).replaceAll(/\s+/g, ' ');
      expect(exitCode, said).toBe(0);
      expect(said).toContain("reached the clone at the target's own address");
    });

    test.each(
      rows.filter(({ advised }) => advised !== undefined).map((row) => ({ ...row, where: row.name })),
    )('$where, where there is no sandbox', async (row) => {
      const project = makeProject([['', row]], installed, target);
      const way = { ...row, user: [...WITHOUT_SANDBOX, ...user], clone };
      const { exitCode, stdout, stderr } = await run(way, project, row.command, row.folder);
      const said = (stdout + stderr).replaceAll(/\s+/g, ' ');
      expect([1, 3], said).toContain(exitCode);
      expect(said).toContain('{safemigrate:config FILE}');
    });

    test('all of these, by that advice', async () => {
      const advised = rows.flatMap((row, at) =>
        row.advised === undefined ? [] : [{ ...row, at: `project${at}`, words: row.advised }],
      );
      expect(advised.length).toBeGreaterThan(5);
      const parts = advised.map((row) => [row.at, row] as const);
      const project = makeProject(parts, installed, target);
      // The folder of its files is another one.
      const words = advised.flatMap(({ at, words: own, folder = '' }) => [
        ...own.map((word) =>
          word.replace(/(?<=\{safemigrate:config )[^}]+/, (file) => path.join(at, folder, file)),
        ),
        NEXT,
      ]);
      const command = ['node', '-e', ONE_AFTER_THE_OTHER, '--', '{safemigrate:url}', ...words];
      const way = { user: [...WITHOUT_SANDBOX, ...user], clone };
      const { exitCode, stdout, stderr } = await run(way, project, command);
      expect(exitCode, stdout + stderr).toBe(0);
      expect(stderr).not.toContain("at the target's own address");
    });
  });
});

/** Between two commands. */
const NEXT = '::';

/** Runs commands, each of which has to leave its table in the clone whose URL is the first word. */
const ONE_AFTER_THE_OTHER = `
const { execFileSync } = require('node:child_process');
const [url, ...words] = process.argv.slice(1);
for (let end = words.indexOf('${NEXT}'); end !== -1; end = words.indexOf('${NEXT}')) {
  const [[program, ...args]] = [words.splice(0, end + 1).slice(0, -1)];
  console.error([program, ...args].join(' '));
  execFileSync(program, args, { stdio: 'inherit' });
  execFileSync('psql', ['-X', '-q', '-v', 'ON_ERROR_STOP=1', url, '-c', 'DROP TABLE made'], { stdio: 'inherit' });
}`;

/** Copies what the programs need to where every user can read it: the cache may lie in a home folder that is closed to others. */
function installForAll(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'safemigrate-configurations-'));
  chmodSync(folder, 0o755);
  const copy = (from: string, to: string) =>
    cpSync(from, path.join(folder, to), { recursive: true, verbatimSymlinks: true });
  copy(path.join(folderOf(node), 'node_modules'), 'node_modules');
  copy(path.join(folderOf(go), 'bin/migrate'), 'migrate');
  const [version = ''] = readdirSync(path.join(folderOf(python), 'lib'));
  for (const name of PACKAGES)
    copy(
      path.join(folderOf(python), 'lib', version, 'site-packages', name),
      path.join('site-packages', name),
    );
  return folder;
}

function folderOf(found: Awaited<ReturnType<typeof toolchain>>): string {
  return 'folder' in found ? found.folder : '';
}

/** The interpreter of the packages, or the same version of the system's if that one is closed to other users. */
function pythonProgram(): string {
  const own = realpathSync(path.join(folderOf(python), 'bin/python'));
  const [, version = '3'] = /python(3\.\d+)$/.exec(own) ?? [];
  const [system] = [`/usr/bin/python${version}`].filter((file) => existsSync(file));
  return system ?? own;
}

/** A project with the files of these ways, each in a folder of its own. */
function makeProject(
  ways: readonly (readonly [place: string, way: Configuration])[],
  installed: string,
  target: string,
): string {
  const project = temporaryFolder();
  cpSync(PROGRAMS, project, { recursive: true });
  symlinkSync(path.join(installed, 'node_modules'), path.join(project, 'node_modules'));
  mkdirSync(path.join(project, 'state'));
  for (const [place, { files = {} }] of ways) {
    for (const [name, text] of Object.entries(files)) {
      const file = path.join(project, place, name);
      mkdirSync(path.dirname(file), { recursive: true });
      writeFileSync(file, filled(text, target, project, installed));
    }
  }
  for (const folder of [project, path.join(project, 'state')]) chmodSync(folder, 0o777);
  return project;
}

function filled(text: string, target: string, project: string, installed: string): string {
  const { hostname, port, username, password, pathname } = new URL(target);
  const parts: Record<string, string> = {
    url: target,
    host: hostname,
    port,
    user: decodeURIComponent(username),
    password: decodeURIComponent(password),
    database: pathname.slice(1),
    project,
    python: pythonProgram(),
    go: path.join(installed, 'migrate'),
  };
  return text.replace(/\{(\w+)\}/g, (all, name: string) => parts[name] ?? all);
}
