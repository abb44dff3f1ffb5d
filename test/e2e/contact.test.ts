import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { Client } from 'pg';
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { temporaryFolder } from '../helpers/cli.ts';
import { type TemporaryDatabase, temporaryDatabase, withClient } from '../helpers/database.ts';
import { ownServer } from '../helpers/own-server.ts';
import { rehearse, scriptCommand } from '../helpers/rehearse.ts';
import { useOwnServers } from '../helpers/servers.ts';
import { clonesOf, digestOf, withDatabase } from '../helpers/target-state.ts';

let target: TemporaryDatabase;
/** A file with the target's URL: nobody rewrites that. */
let hardCoded: string;

beforeAll(() => useOwnServers(18));

beforeEach(async () => {
  target = await temporaryDatabase(18, { sql: 'CREATE TABLE jobs (id int)' });
  hardCoded = path.join(temporaryFolder(), 'url');
  writeFileSync(hardCoded, target.url);
});

afterEach(async () => {
  expect(await clonesOf(18, target.name)).toEqual([]);
  await target.drop();
});

const READ_URL = "const url = (await import('node:fs')).readFileSync(args[0], 'utf8');";
/** Connects past safemigrate, says when that ended, and would stay for ever. */
const STAY = `${READ_URL}
  const client = await connect(undefined, url);
  client.on('error', () => console.error('ended at', Date.now()));
  await client.query('SELECT 1');
  await new Promise(() => setInterval(() => {}, 1000));`;

/**
 * The watch looks every 100 ms. Its look may fall into the few milliseconds between a command's connecting and its first
 * statement, and then the session is ended before it has done what the test is about: the test is made again.
 */
const RACE = { retry: 4 } as const;

describe('a command that connects to the target past safemigrate', () => {
  test(
    'loses its session within 500 ms, is stopped, and is named: exit code 1 where nothing was changed',
    RACE,
    async () => {
      const before = await digestOf(target.url);
      const { report, exitCode, stderr } = await rehearse(target.url, scriptCommand(STAY, hardCoded));
      expect(exitCode).toBe(1);
      // connectedAt is the server's backend_start, by the clock of the same machine.
      const endedAt = Number(/ended at (\d+)/.exec(stderr)?.[1]);
      expect(endedAt - Date.parse(report.targetConnections[0]?.connectedAt ?? '')).toBeLessThan(500);
      expect(report.targetConnections).toMatchObject([
        {
          process: { pid: expect.any(Number), command: expect.stringContaining('run-script.mjs') },
          user: 'postgres',
          ended: true,
          query: 'SELECT 1',
        },
      ]);
      expect(report.target.changes).toEqual([]);
      expect(report.verdict.reasons[0]).toContain('run-script.mjs');
      expect(await digestOf(target.url)).toEqual(before);
    },
  );

  test('and that was faster has the exact change told: exit code 5', RACE, async () => {
    const { report, exitCode } = await rehearse(
      target.url,
      scriptCommand(STAY.replace('SELECT 1', 'ALTER TABLE jobs ADD COLUMN done bool'), hardCoded),
    );
    expect(exitCode).toBe(5);
    expect(report.target.changes).toEqual([
      {
        what: 'create column public.jobs.done',
        madeBy: 'command',
        evidence: expect.stringContaining('connected to the target'),
      },
    ]);
    expect(report.targetConnections).toMatchObject([
      { query: 'ALTER TABLE jobs ADD COLUMN done bool', ended: true },
    ]);
  });

  test('is found before it can commit what it does in a transaction', RACE, async () => {
    const body = `${READ_URL}
      const client = await connect(undefined, url);
      client.on('error', () => {});
      await client.query('BEGIN; DROP TABLE jobs; SELECT pg_sleep(20); COMMIT');`;
    const { report, exitCode } = await rehearse(target.url, scriptCommand(body, hardCoded));
    expect(exitCode).toBe(1);
    expect(report.targetConnections).toHaveLength(1);
    expect(report.target.changes).toEqual([]);
  });

  test('through a process that it started, itself worked on the clone, or both', RACE, async () => {
    const body = `
      const client = await connect();
      await client.query('CREATE TABLE notes (id int)');
      await client.end();
      const { spawn } = await import('node:child_process');
      const child = spawn('sh', ['-c', '"$0" "$@"; exit $?', process.execPath, process.argv[1], args[1], args[0]], { stdio: 'inherit' });
      await new Promise((resolve) => child.on('exit', resolve));`;
    const { report, exitCode } = await rehearse(target.url, scriptCommand(body, hardCoded, STAY));
    expect(exitCode).toBe(1);
    expect(report.command.reachedClone).toBe(true);
    expect(report.targetConnections).toMatchObject([{ ended: true }]);
  });
});

describe('sessions of somebody else', () => {
  test('that come to the target while the command runs are never touched, whatever it does', async () => {
    const somebody = new Client(target.url);
    let lost = false;
    somebody.on('error', () => {
      lost = true;
    });
    try {
      const body = `console.error('waiting'); await new Promise((resolve) => process.stdin.once('data', resolve));${STAY}`;
      const { report, exitCode } = await rehearse(target.url, scriptCommand(body, hardCoded), {
        typed: [
          [
            /waiting/,
            async () => {
              await somebody.connect();
              await somebody.query('SELECT 1');
              return 'go\n';
            },
          ],
        ],
      });
      expect(exitCode).toBe(1);
      expect(report.targetConnections).toHaveLength(1);
      expect(lost).toBe(false);
      expect((await somebody.query('SELECT 2 AS two')).rows).toEqual([{ two: 2 }]);
    } finally {
      await somebody.end();
    }
  });
});

test('over a Unix socket nobody can be recognised: the session is left alone, and the report says so', async () => {
  const server = await ownServer(18);
  try {
    await withClient(server.url, (client) => client.query('CREATE DATABASE shop'));
    const url = withDatabase(server.url, 'shop');
    const socket = new URL(url);
    socket.searchParams.set('host', server.socketFolder);
    socket.searchParams.set('port', String(server.port));
    writeFileSync(hardCoded, socket.href);
    const body = `${READ_URL}
      const clone = await connect();
      await clone.query('CREATE TABLE notes (id int)');
      await clone.end();
      const client = await connect(undefined, url);
      await client.query('SELECT pg_sleep(1)');
      await client.end();`;
    const { report, exitCode } = await rehearse(url, scriptCommand(body, hardCoded), {
      args: ['--sandbox', 'off'],
    });
    expect(exitCode).toBe(0);
    expect(report.targetConnections).toEqual([]);
    expect(report.caveats).toContainEqual({
      path: 'targetConnections',
      kind: 'unmeasured',
      reason: expect.stringContaining('Unix socket'),
    });
  } finally {
    await server.stop();
  }
});
