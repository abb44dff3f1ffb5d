import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { flagsIn, sharing } from '../../src/cli/options/flags.ts';
import { MODE_SETTINGS } from '../../src/cli/options/run-table.ts';
import { subcommands } from '../../src/cli/options/subcommand-table.ts';
import { identifier } from '../../src/postgres/sql/quote.ts';
import {
  CLI,
  inTerminal,
  noTerminal,
  PROGRAM,
  plainEnvironment,
  runProgram,
  safemigrate,
  sqlCommand,
  temporaryFolder,
} from '../helpers/cli.ts';
import { type TemporaryDatabase, temporaryDatabase } from '../helpers/database.ts';
import { readReport } from '../helpers/read-report.ts';
import { skipReason } from '../helpers/requirements.ts';
import { serverUrl, useOwnServers } from '../helpers/servers.ts';
import { clonesOf, digestOf } from '../helpers/target-state.ts';

const MIGRATION = 'CREATE TABLE jobs (id int)';

let target: TemporaryDatabase;
let env: NodeJS.ProcessEnv;

beforeAll(() => useOwnServers(18));

beforeAll(async () => {
  target = await temporaryDatabase(18);
  env = { DATABASE_URL: target.url };
});

afterAll(() => target.drop());

/** A migration command around which a shell says and asks things. */
const shell = (script: string) => ['sh', '-c', script, 'sh', ...sqlCommand(MIGRATION)];

describe('what the command reads and writes', () => {
  test('standard input is the command’s, so that a pipe answers its question', async () => {
    const asking = shell('printf "Migrate? "; read answer; echo "answer: $answer"; "$@"');
    const { exitCode, stdout } = await safemigrate(['--', ...asking], { env, input: 'yes\n' });
    expect(stdout).toBe('Migrate? answer: yes\n');
    expect(exitCode).toBe(0);
  });

  test('standard output carries the command’s alone, and standard error its own and ours', async () => {
    const { stdout, stderr } = await safemigrate(['--', ...shell('echo out; echo err >&2; "$@"')], { env });
    expect(stdout).toBe('out\n');
    expect(stderr).toMatch(/^err$/m);
    expect(stderr).toContain('PASSED');
  });

  test('with --format standard output carries the report alone', async () => {
    const result = await safemigrate(['--format', 'json', '--', ...shell('echo out; "$@"')], { env });
    const report = readReport(result.stdout);
    expect(report.schema?.changes).toMatchObject([{ verb: 'create', object: 'public.jobs' }]);
    expect(result.stderr).toMatch(/^out$/m);
    expect(result.stderr).not.toContain('PASSED');

    const text = await safemigrate(['--format', 'text', '--', ...shell('echo out; "$@"')], { env });
    expect(text.stdout).toContain('PASSED');
    // On a slow machine the parts that took long are said too, and that the last run of the command took less time.
    const said = text.stderr.replace(/^(?:✓ |─).*\n/gm, '').replace(/\nAgainst the last run [\s\S]*/, '');
    expect(said).toBe('out\n');
  });
});

test.skipIf(!existsSync('/dev/full'))('standard output that cannot be written is told', async () => {
  const line = `"$0" "$@" > /dev/full`;
  const words = [
    process.execPath,
    CLI,
    '--format',
    'json',
    '--clone',
    'template',
    '--',
    ...sqlCommand(MIGRATION),
  ];
  const { stderr } = await runProgram(['sh', '-c', line, ...words], { env });
  expect(stderr).toMatch(/^safemigrate: Standard output could not be written: ENOSPC/m);
});

describe('signals without a terminal', () => {
  test.each([
    ['SIGTERM', 143],
    ['SIGINT', 130],
    ['SIGHUP', 129],
    ['SIGQUIT', 131],
  ] as const)('%s ends the command, cleans up, and gives %i', async (signal, expected) => {
    let pid = 0;
    const { exitCode, stderr } = await safemigrate(['--', ...shell('"$@"; echo waiting; exec sleep 100')], {
      env,
      started: (child) => {
        pid = child;
      },
      typed: [
        [
          /waiting/,
          async () => {
            process.kill(pid, signal);
            return '';
          },
        ],
      ],
    });
    expect(stderr).toContain('interrupted');
    expect(exitCode).toBe(expected);
    expect(await clonesOf(18, target.name)).toEqual([]);
  });
});

test('who goes on asking is let go while it cleans up, and told who does that then', async () => {
  let pid = 0;
  let clone = '';
  const holder = new Client({ connectionString: serverUrl(18) });
  onTestFinished(() => holder.end());
  await holder.connect();
  const waiting =
    "SELECT FROM pg_stat_activity WHERE application_name LIKE '% cleanup' AND wait_event_type = 'Lock'";
  const interrupt = async () => {
    clone = (await clonesOf(18, target.name))[0] ?? '';
    // Its end waits for that.
    await holder.query(`BEGIN; COMMENT ON DATABASE ${identifier(clone)} IS 'held'`);
    process.kill(pid, 'SIGINT');
    while ((await holder.query(waiting)).rowCount === 0)
      await holder.query('SELECT pg_stat_clear_snapshot()');
    // Signals of one kind that come together are one.
    process.kill(pid, 'SIGTERM');
    process.kill(pid, 'SIGHUP');
    return '';
  };
  const leave = async () => {
    process.kill(pid, 'SIGINT');
    return '';
  };
  const { exitCode, stderr } = await safemigrate(['--', ...shell('"$@"; echo waiting; exec sleep 100')], {
    env,
    started: (child) => {
      pid = child;
    },
    typed: [
      [/waiting/, interrupt],
      [/still cleaning up\. Once more leaves that to `safemigrate clean`/, leave],
    ],
  });
  expect(exitCode, stderr).toBe(130);
  await holder.query('ROLLBACK');
  expect((await safemigrate(['clean'], { env })).stdout).toBe(`dropped ${clone}\n`);
});

describe('report files', () => {
  test('any number of them is written, each by its ending, and another one changes nothing about the output', async () => {
    const folder = temporaryFolder();
    const args = ['--report', 'one.json', '--report', 'two.txt', '--report', 'three.json'];
    const result = await safemigrate([...args, '--', ...sqlCommand(MIGRATION)], { env, folder });
    expect(result.exitCode).toBe(0);
    expect(result.stdout).toBe('');
    const read = (name: string) => readFileSync(path.join(folder, name), 'utf8');
    expect(read('one.json')).toBe(read('three.json'));
    expect(readReport(read('one.json')).verdict.pass).toBe(true);
    expect(read('two.txt')).toContain('PASSED');
  });

  test('one that cannot be written is said before anything is touched', async () => {
    const folder = temporaryFolder();
    const args = ['--report', 'two.json', '--report', 'missing/one.json'];
    const result = await safemigrate([...args, '--', ...sqlCommand(MIGRATION)], { env, folder });
    expect(result.exitCode).toBe(2);
    expect(result.stderr).toMatch(/cannot be written to missing\/one\.json/);
    expect(existsSync(path.join(folder, 'two.json'))).toBe(false);
  });

  test('one that can no longer be written loses nothing: the others are, and the reason is said', async () => {
    const folder = temporaryFolder();
    mkdirSync(path.join(folder, 'reports'));
    const args = ['--report', 'reports/one.json', '--report', 'two.json'];
    const removed = [process.execPath, '-e', "require('fs').rmSync('reports', { recursive: true })"];
    const result = await safemigrate([...args, '--', ...removed], { env, folder });
    expect(result.stderr).toMatch(/could not be written to reports\/one\.json/);
    expect(JSON.parse(readFileSync(path.join(folder, 'two.json'), 'utf8'))).toMatchObject({ version: 1 });
  });

  test('they are replaced, not appended to', async () => {
    const folder = temporaryFolder();
    writeFileSync(path.join(folder, 'report.json'), 'x'.repeat(100_000));
    await safemigrate(['--report', 'report.json', '--', ...sqlCommand(MIGRATION)], { env, folder });
    expect(JSON.parse(readFileSync(path.join(folder, 'report.json'), 'utf8'))).toMatchObject({ version: 1 });
  });
});

describe('style', () => {
  const ESCAPE = '\u001b[';

  test('a pipe gets no colours and nothing drawn in place', async () => {
    const { stderr } = await safemigrate(['--', ...sqlCommand(MIGRATION)], { env });
    expect(stderr).not.toContain(ESCAPE);
    expect(stderr).not.toContain('\r');
  });

  test('FORCE_COLOR colours a pipe; without UTF-8 the words are ASCII', async () => {
    const style = { FORCE_COLOR: '1', LANG: 'C' };
    const { stderr } = await safemigrate(['--', ...sqlCommand(MIGRATION)], { env: { ...env, ...style } });
    expect(stderr).toContain(ESCAPE);
    expect([...stderr].filter((character) => character > '~')).toEqual([]);
  });
});

describe.skipIf(skipReason(noTerminal))('on a real terminal', () => {
  const onTerminal = async (
    words: string[],
    { style, typed = [] }: { style?: NodeJS.ProcessEnv; typed?: [RegExp, string][] } = {},
  ) => inTerminal(words, { env: { ...env, ...style }, typed });

  test('a question is asked there and answered there', async () => {
    const asking = shell(
      'printf "Migrate? " > /dev/tty; read answer < /dev/tty; echo "answer: $answer"; "$@"',
    );
    const { output, exitCode } = await onTerminal(['--', ...asking], { typed: [[/Migrate\? $/, 'yes\n']] });
    expect(output).toContain('answer: yes');
    expect(output).toContain('PASSED');
    expect(exitCode).toBe(0);
  });

  test('Ctrl-C ends the command in its own way, cleans up, and gives 130', async () => {
    const before = await digestOf(target.url);
    const waiting = shell('trap "echo bye; exit 3" INT; "$@"; echo waiting; while :; do sleep 0.1; done');
    const { output, exitCode } = await onTerminal(['--', ...waiting], { typed: [[/waiting/, '\u0003']] });
    expect(output).toContain('bye');
    expect(output).toContain('interrupted');
    expect(exitCode).toBe(130);
    expect(await clonesOf(18, target.name)).toEqual([]);
    expect(await digestOf(target.url)).toEqual(before);
  });

  test('there are colours, unless NO_COLOR is set', async () => {
    const coloured = await onTerminal(['--', ...sqlCommand(MIGRATION)]);
    expect(coloured.output).toMatch(new RegExp(`${String.fromCharCode(27)}\\[\\d+m`));
    const plain = await onTerminal(['--', ...sqlCommand(MIGRATION)], { style: { NO_COLOR: '1' } });
    expect(plain.output).not.toMatch(new RegExp(`${String.fromCharCode(27)}\\[\\d+m`));
    expect(plain.output).toContain('PASSED');
  });

  test('CI is no person who watches: nothing is drawn in place', async () => {
    const { output } = await onTerminal(['--', ...sqlCommand(MIGRATION)], { style: { CI: 'true' } });
    expect(output).not.toContain('\u001b[2K');
  });
});

describe('the command line itself', () => {
  test('--help and --version need no server, no configuration, and next to no work', async () => {
    const version = await safemigrate(['--version']);
    expect(version).toMatchObject({ exitCode: 0, stderr: '' });
    expect(version.stdout).toMatch(/^\d+\.\d+\.\d+\S*\n$/);
    const help = await safemigrate(['--help']);
    expect(help).toMatchObject({ exitCode: 0, stderr: '' });
    for (const word of ['--plan', 'apply', 'list', 'clean', 'Exit codes'])
      expect(help.stdout).toContain(word);
    expect(help.stdout.trimEnd().split('\n').length).toBeLessThanOrEqual(60);
    const bare = processorMs('-e', '0');
    expect(processorMs(CLI, '--version')).toBeLessThan(bare * 6);
    expect(processorMs(CLI, '--help')).toBeLessThan(bare * 12);
  });

  test.each([
    ['--help', 'all'],
    ['help', 'all'],
  ])('%s %s has every option', async (...words) => {
    const { stdout, exitCode } = await safemigrate(words);
    expect(exitCode).toBe(0);
    const tree = MODE_SETTINGS.rehearse;
    for (const { name } of flagsIn(tree)) expect(stdout).toContain(`  ${name}`);
    const shared = [...sharing(tree, '--limit'), ...sharing(tree, '--permit')];
    for (const { argument } of shared) expect(stdout).toContain(`\n  ${argument} `);
    for (const [name] of subcommands()) expect(stdout).toContain(`  ${name} `);
  });

  test('the help of a subcommand has its options, with their defaults', async () => {
    const { stdout } = await safemigrate(['doctor', '--help']);
    expect(stdout.replace(/\s+/g, ' ')).toContain(
      'copy=<size> largest size that is copied in full, unless --clone names the method (default: 10GB)',
    );
    expect(stdout).not.toContain('--force');
  });

  test('a pipe that is closed early is no failure of ours', async () => {
    const { stderr } = await runProgram(['sh', '-c', '"$0" "$@" --help | head -n 1', ...PROGRAM]);
    expect(stderr).toBe('');
  });
});

/** The least time of a processor that a Node process took of five. Waiting for one does not count, so that others' work does not. */
function processorMs(...words: readonly string[]): number {
  const says =
    'process.on("exit", () => { const { user, system } = process.cpuUsage(); console.error("\\n" + (user + system)); })';
  const times = Array.from({ length: 5 }, () => {
    const { stderr } = spawnSync(process.execPath, ['--import', `data:text/javascript,${says}`, ...words], {
      env: plainEnvironment(),
      encoding: 'utf8',
    });
    return Number(stderr.trim().split('\n').at(-1)) / 1000;
  });
  return Math.min(...times);
}
