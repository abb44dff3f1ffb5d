import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { execa } from 'execa';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parse } from 'yaml';
import { shellJob } from '../../src/cli/init/ci-jobs.ts';
import { plainEnvironment, temporaryFolder } from '../helpers/cli.ts';
import { codeBlocksOf } from '../helpers/documented-commands.ts';
import { fillProject } from '../helpers/reader-project.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const [github, gitlab] = codeBlocksOf(readFileSync(path.join(root, 'docs/ci.md'), 'utf8'))
  .filter(({ language }) => language === 'yaml')
  .map(({ text }) => parse(text));

const DUMP = `CREATE TABLE accounts (id int PRIMARY KEY, balance int);
INSERT INTO accounts SELECT n, 100 FROM generate_series(1, 1000) AS n;
`;
const REPORTS = ['html', 'md', 'sarif', 'xml'].map((ending) => `safemigrate.${ending}`);

const place = mkdtempSync(path.join(tmpdir(), 'safemigrate-test-'));
let packed: { readonly tarball: string; readonly sha256: string };

beforeAll(async () => {
  await execa('npm', ['pack', '--ignore-scripts', '--pack-destination', place], { cwd: root });
  const [name = ''] = readdirSync(place).filter((each) => each.endsWith('.tgz'));
  const { stdout } = await execa('sha256sum', [path.join(place, name)]);
  packed = { tarball: `file://${path.join(place, name)}`, sha256: stdout.split(' ')[0] ?? '' };
});
afterAll(() => rmSync(place, { recursive: true }));

/** Runs lines of a job with bash, as a runner does, in a project that uses Knex and has its packages already. */
async function runJob(lines: readonly string[], sha256 = packed.sha256) {
  const folder = temporaryFolder();
  await fillProject(folder);
  mkdirSync(path.join(folder, 'test'), { recursive: true });
  writeFileSync(path.join(folder, 'test/dump.sql'), DUMP);
  const prefix = path.join(place, 'global');
  const shell = lines
    .map((line) => line.replaceAll('npx prisma migrate deploy', 'npx knex migrate:latest'))
    .map((line) => line.replaceAll('/tmp/safemigrate.tgz', path.join(folder, 'safemigrate.tgz')))
    .join('\n');
  const { exitCode, all } = await execa('bash', ['-eo', 'pipefail', '-c', shell], {
    cwd: folder,
    all: true,
    stdin: 'ignore',
    timeout: 100_000,
    reject: false,
    extendEnv: false,
    env: {
      ...plainEnvironment(),
      HOME: process.env.HOME,
      PATH: `${path.join(prefix, 'bin')}:${process.env.PATH}`,
      NPM_CONFIG_PREFIX: prefix,
      NPM_CONFIG_PREFER_OFFLINE: 'true',
      XDG_STATE_HOME: path.join(folder, 'state'),
      SAFEMIGRATE_TARBALL: packed.tarball,
      SAFEMIGRATE_SHA256: sha256,
      SAFEMIGRATE_DUMP: 'test/dump.sql',
      CI: 'true',
    },
  });
  if (exitCode !== 0) return { exitCode, all, reports: [] };
  const reports = path.join(folder, 'reports');
  // That of the package, which is newer than the machine's.
  expect(readFileSync(path.join(reports, 'safemigrate.md'), 'utf8')).toContain('PostgreSQL 18');
  return { exitCode, all, reports: readdirSync(reports).sort() };
}

/** Tells if a line needs neither packages of the project nor a service. */
const isOurs = (line: string) => line !== 'npm ci' && !line.includes('safemigrate comment');

test("the page's job for GitHub installs by address and checksum, and rehearses", async () => {
  const steps: { run?: string }[] = github.jobs.rehearse.steps;
  const lines = steps.flatMap(({ run }) => run ?? []).filter(isOurs);
  expect(lines.length).toBe(2);
  const { exitCode, all, reports } = await runJob(lines);
  expect(exitCode, all).toBe(0);
  expect(reports).toEqual(REPORTS);
  const refused = await runJob(lines, '0'.repeat(64));
  expect(refused).toMatchObject({ exitCode: 1, all: expect.stringContaining('did NOT match') });
}, 120_000);

test("the page's job for GitLab does the same", async () => {
  const lines: string[] = gitlab.safemigrate.script.filter(isOurs);
  const { exitCode, all, reports } = await runJob(lines);
  expect(exitCode, all).toBe(0);
  expect(reports).toEqual(REPORTS);
}, 120_000);

test('the script that init writes for other services does the same', async () => {
  const tool = {
    name: 'Knex',
    command: 'npx knex migrate:latest',
    isLibrary: false,
    folder: undefined,
    urlEnv: 'DATABASE_URL',
    needsUrl: false,
  };
  const { exitCode, all, reports } = await runJob([shellJob(tool)]);
  expect(exitCode, all).toBe(0);
  expect(reports).toEqual(REPORTS);
}, 120_000);
