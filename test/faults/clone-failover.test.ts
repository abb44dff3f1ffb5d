import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import type { MethodId } from '../../src/clone/clone-settings.ts';
import type { ServerVersion } from '../../src/local-server/binaries.ts';
import { type CliResult, safemigrate, sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { withoutClientPrograms } from '../helpers/client-programs.ts';
import { withClusterCloning } from '../helpers/cluster-cloning.ts';
import { until } from '../helpers/cutting.ts';
import {
  caughtUp,
  crash,
  primaryWith,
  promote,
  relayTo,
  streamingStandbyOf,
  through,
} from '../helpers/failover.ts';
import type { PlacedServer } from '../helpers/placed-server.ts';
import type { Relay } from '../helpers/relay.ts';
import { databasesBeside, inDatabase } from '../helpers/swapping.ts';

const MIGRATION = 'CREATE TABLE added (id int)';
const OURS = `
SELECT (SELECT count(*)::int FROM pg_replication_slots) AS slots,
       (SELECT count(*)::int FROM pg_stat_activity WHERE application_name LIKE 'safemigrate%') AS sessions`;
const settings = { timeout: 180_000 };

interface Pair {
  readonly primary: PlacedServer;
  readonly standby: PlacedServer;
}

async function pair(version: ServerVersion): Promise<Pair> {
  const primary = await primaryWith('app', version);
  const standby = await streamingStandbyOf(primary, version);
  await caughtUp(primary, standby);
  return { primary, standby };
}

type Moment = (text: string) => boolean;

/** The files are copied, and their backup is about to end. */
const copied: Moment = (text) => /pg_(backup_stop|stop_backup)/.test(text);

/** The backup has ended, and its WAL is copied. */
const walCopied: Moment = (text) => text === 'SELECT pg_is_in_recovery() AS standby';

/** The session of the backup says goodbye: what follows is the second server's start. */
function starting(): Moment {
  let stopped = false;
  return (text) => {
    stopped ||= copied(text);
    return stopped && text === 'terminate';
  };
}

/** A way to the server on which `happen` has happened before the request of that moment is passed on. */
async function relayWith(server: PlacedServer, moment: Moment, happen: () => void): Promise<Relay> {
  let over = false;
  return relayTo(server, (_, text) => {
    if (!over && moment(text)) {
      over = true;
      happen();
    }
    return 'forward';
  });
}

function rehearse(
  words: readonly string[],
  method: MethodId = 'cluster',
  command = sqlCommand(MIGRATION),
): Promise<CliResult> {
  return safemigrate([...words, '--clone', method, '--', ...command]);
}

async function expectNothingLeft(...servers: PlacedServer[]): Promise<void> {
  for (const server of servers) {
    expect(ourFolders(server)).toEqual([]);
    await withClient(server.url, (client) =>
      until('our sessions are over', async () => {
        const { rows } = await client.query<{ slots: number; sessions: number }>(OURS);
        return rows[0]?.slots === 0 && rows[0].sessions === 0;
      }),
    );
    expect(await tablesOf(server)).toEqual(['kept']);
    expect(await databasesBeside(server.url)).toEqual(['app']);
  }
}

const ourFolders = ({ folder }: PlacedServer) =>
  readdirSync(folder).filter((name) => name.startsWith('safemigrate_'));

async function tablesOf({ url }: PlacedServer): Promise<string[]> {
  const { rows } = await withClient(inDatabase(url, 'app'), (client) =>
    client.query<{ name: string }>(
      "SELECT relname::text AS name FROM pg_class WHERE relnamespace = 'public'::regnamespace",
    ),
  );
  return rows.map(({ name }) => name);
}

/** Of every file, with its time of change. */
function contentOf({ data }: PlacedServer): string {
  const script = 'cd "$1" && find . -type f -printf "%p %T@\\n" -exec cksum {} + | sort';
  return execFileSync('sh', ['-c', script, 'sh', data], { encoding: 'utf8' });
}

/** A command that waits on the clone. */
function waitingCommand() {
  const folder = temporaryFolder();
  const [started, go] = [path.join(folder, 'started'), path.join(folder, 'go')];
  const script = `touch '${started}'; until [ -e '${go}' ] || ! kill -0 $PPID; do sleep 0.02; done; exec "$@"`;
  return {
    command: ['sh', '-c', script, 'sh', ...sqlCommand(MIGRATION)],
    // Both servers, the clone's and the run want the same processors.
    started: () => expect.poll(() => existsSync(started), { timeout: 60_000 }).toBe(true),
    goOn: () => writeFileSync(go, ''),
  };
}

test.each([
  [18, 'while its files are copied', copied],
  [14, 'while its files are copied', copied],
  [18, 'while the WAL of the copy is copied', walCopied],
] as [ServerVersion, string, Moment][])(
  'PostgreSQL %i: a source that is promoted %s is given up, and it says so',
  settings,
  async (version, _, moment) => {
    const { primary, standby } = await pair(version);
    const relay = await relayWith(standby, moment, () => promote(standby));
    const source = through(relay, inDatabase(standby.url, 'app'));
    const { exitCode, stderr } = await rehearse([
      ...['--url', inDatabase(primary.url, 'app'), '--clone-from', source],
    ]);
    expect(exitCode, stderr).toBe(3);
    expect(stderr).toContain('The standby was promoted while it was copied.');
    expect(stderr).toMatch(/target was not touched.*removed.*another standby, or without --clone-from/);
    await expectNothingLeft(primary, standby);
  },
);

test('a source that was promoted before, or is of another system, is refused', settings, async () => {
  const { primary, standby } = await pair(18);
  const other = await primaryWith('app');
  promote(standby);
  for (const [{ url }, reason] of [
    [standby, 'it is a primary itself'],
    [other, 'their system identifiers differ'],
  ] as const) {
    const source = inDatabase(url, 'app');
    const { exitCode, stderr } = await rehearse([
      '--url',
      inDatabase(primary.url, 'app'),
      '--clone-from',
      source,
    ]);
    expect(exitCode, stderr).toBe(3);
    expect(stderr).toContain(`The server that --clone-from names is no standby of the target: ${reason}.`);
    expect(stderr).toMatch(/target was not touched.*leave it out/);
  }
});

test('a source that is promoted once it is copied is no matter to the clone', settings, async () => {
  const { primary, standby } = await pair(18);
  const relay = await relayWith(standby, starting(), () => promote(standby));
  const source = through(relay, inDatabase(standby.url, 'app'));
  const { exitCode, stdout, stderr } = await rehearse([
    ...['--url', inDatabase(primary.url, 'app'), '--clone-from', source, '--format', 'json'],
  ]);
  expect(exitCode, stderr).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({
    verdict: { pass: true },
    schema: { changes: [{ verb: 'create', object: 'public.added' }] },
    target: { changes: [], touched: [expect.stringContaining('nothing on the target')] },
    caveats: expect.arrayContaining([
      expect.objectContaining({ reason: expect.stringMatching(/made from a standby, and has the data/) }),
    ]),
  });
  await expectNothingLeft(primary, standby);
});

test(
  'a standby that is promoted while the command runs on its copy is no matter to it',
  settings,
  async () => {
    const { primary, standby } = await pair(18);
    const words = ['--url', inDatabase(primary.url, 'app'), '--clone-from', inDatabase(standby.url, 'app')];
    const { command, started, goOn } = waitingCommand();
    const result = rehearse([...words, '--format', 'json'], 'cluster', command);
    await started();
    promote(standby);
    goOn();
    const { exitCode, stdout, stderr } = await result;
    expect(exitCode, stderr).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ verdict: { pass: true }, target: { changes: [] } });
    await expectNothingLeft(primary, standby);
  },
);

/** Where the URL leads to once the primary is lost. */
type Way = 'to several hosts' | 'to an address that moves';

/** The primary is lost at that moment, and the standby takes over. @returns the target's URL, and what was in the lost folder. */
async function failingOver({ primary, standby }: Pair, way: Way, moment: Moment) {
  const lost: string[] = [];
  const relay = await relayWith(primary, moment, () => {
    failOver();
  });
  const failOver = () => {
    crash(primary);
    lost.push(contentOf(primary));
    promote(standby);
    if (way === 'to an address that moves') relay.leadTo(standby.url);
  };
  const hosts = `127.0.0.1:${relay.port},127.0.0.1:${standby.port}`;
  const url =
    way === 'to several hosts'
      ? `postgresql://postgres@${hosts}/app?sslmode=disable&target_session_attrs=read-write`
      : through(relay, inDatabase(primary.url, 'app'));
  return { url, lost, failOver };
}

async function expectLeftAlone({ primary, standby }: Pair, lost: readonly string[]): Promise<void> {
  expect(ourFolders(primary)).toEqual([]);
  expect(contentOf(primary)).toBe(lost[0]);
  await expectNothingLeft(standby);
}

test.each([
  [18, 'to an address that moves'],
  [14, 'to several hosts'],
] as [ServerVersion, Way][])(
  'PostgreSQL %i: a copy of a primary that fails over is not completed on the new one; the URL leads %s',
  settings,
  async (version, way) => {
    const servers = await pair(version);
    const { url, lost } = await failingOver(servers, way, copied);
    const { exitCode, stderr } = await rehearse(['--url', url]);
    expect(exitCode, stderr).toBe(3);
    expect(stderr).toMatch(
      /The server ended the backup|The connection to the server was lost during the run/,
    );
    expect(stderr).toMatch(/target was not touched/);
    expect(stderr).toMatch(/run it again/i);
    await expectLeftAlone(servers, lost);
  },
);

test('a primary that fails over while its copy is started', settings, async () => {
  const servers = await pair(18);
  const { url, lost } = await failingOver(servers, 'to several hosts', starting());
  const { exitCode, stderr } = await rehearse(['--url', url]);
  expect(exitCode, stderr).toBe(3);
  expect(stderr).toMatch(/lost.*\n.*target was not touched/);
  await expectLeftAlone(servers, lost);
});

test.each([
  ['to several hosts', /Whether the target changed could not be found out/],
  [
    'to an address that moves',
    /another server took over in the meantime \(timeline 1 became 2\).*target is as it was before/,
  ],
] as const)(
  'a primary that fails over while the command runs ends the run; the URL leads %s',
  settings,
  async (way, told) => {
    const servers = await pair(18);
    const { url, lost, failOver } = await failingOver(servers, way, () => false);
    const { command, started } = waitingCommand();
    const result = rehearse(['--url', url], 'cluster', command);
    await started();
    failOver();
    const { exitCode, stderr } = await result;
    expect(exitCode, stderr).toBe(3);
    expect(stderr).toMatch(told);
    await expectLeftAlone(servers, lost);
  },
);

test(
  'an address that moves on while the command runs: the report tells which server was asked',
  settings,
  async () => {
    const servers = await pair(18);
    const { primary, standby } = servers;
    const relay = await relayTo(primary);
    const { command, started, goOn } = waitingCommand();
    const result = rehearse(
      ['--url', through(relay, inDatabase(primary.url, 'app')), '--format', 'json'],
      'cluster',
      command,
    );
    await started();
    promote(standby);
    relay.leadTo(standby.url);
    goOn();
    const { exitCode, stdout, stderr } = await result;
    expect(exitCode, stderr).toBe(0);
    const moved = expect.stringMatching(/^another server took over in the meantime \(timeline 1 became 2\)/);
    const { target, caveats } = JSON.parse(stdout);
    expect(target.changes).toEqual([]);
    expect(caveats).toContainEqual({ path: 'target.changes', kind: 'estimate', reason: moved });
    expect(caveats).toContainEqual(
      expect.objectContaining({ path: expect.stringMatching(/^forecast/), reason: moved }),
    );
    await expectNothingLeft(primary, standby);
  },
);

test('files of one server are not copied under the backup of another', settings, async () => {
  const { primary, standby } = await pair(18);
  promote(standby);
  const relay = await relayTo(primary, (_, text) => {
    // After it was looked at once more, and before the backup.
    if (creating && text.includes('unix_socket_directories')) relay.leadTo(standby.url);
    return 'forward';
  });
  let creating = false;
  await withClusterCloning(through(relay, inDatabase(primary.url, 'app')), {}, async ({ create }) => {
    creating = true;
    await expect(create()).rejects.toMatchObject({
      code: 'CLONE',
      message: expect.stringMatching(/The server that answers now is not the one whose files are in .*data/),
      hint: expect.stringContaining('The target was not touched'),
    });
  });
  await expectNothingLeft(primary, standby);
});

const noBaseBackup = await withoutClientPrograms('pg_basebackup');
const noDump = await withoutClientPrograms('pg_dump', 'pg_restore');

test.skipIf(noBaseBackup)(
  'a base backup of a primary that fails over is given up, and leaves nothing',
  settings,
  async () => {
    const servers = await pair(15);
    // It has been told where its WAL begins, and asks for that.
    const begun: Moment = (text) => text.startsWith('START_REPLICATION');
    const { url, lost } = await failingOver(servers, 'to several hosts', begun);
    const { exitCode, stderr } = await rehearse(['--url', url], 'basebackup');
    expect(exitCode, stderr).toBe(3);
    expect(stderr).toMatch(/The target was not (touched|changed)/);
    await expectLeftAlone(servers, lost);
  },
);

test.skipIf(noDump)(
  'a dump of a primary that fails over is given up; what the new one got of its clone is cleaned there',
  settings,
  async () => {
    const servers = await pair(15);
    const begun: Moment = (text) => text.startsWith('COPY public.kept');
    const { url, lost } = await failingOver(servers, 'to several hosts', begun);
    const { exitCode, stderr } = await rehearse(['--url', url], 'dump');
    expect(exitCode, stderr).toBe(3);
    expect(stderr).toMatch(/The target was not (touched|changed)/);
    const cleaned = await safemigrate(['clean', '--url', inDatabase(servers.standby.url, 'app')]);
    expect(cleaned.exitCode, cleaned.stderr).toBe(0);
    expect(cleaned.stdout).toMatch(/^dropped app_rehearsal_/m);
    await expectLeftAlone(servers, lost);
  },
);
