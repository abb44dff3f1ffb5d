import { execFile } from 'node:child_process';
import { appendFile, chown, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { UPGRADE_MODES, type UpgradeMode } from '../../src/model/upgrade-mode.ts';
import type { ModeSection } from '../../src/model/upgrade-model.ts';
import { withClient } from '../helpers/client.ts';
import { programsOf } from '../helpers/own-server.ts';
import { SERVER_UID } from '../helpers/placed-server.ts';
import { skipReason } from '../helpers/requirements.ts';
import { upgradePrograms } from '../helpers/upgrade-programs.ts';
import {
  cannotUpgrade,
  NEW,
  OLD,
  reachable,
  rehearseUpgradeOf,
  type ServerToUpgrade,
  serverToUpgrade,
} from '../helpers/upgrading.ts';
import { median, recordFigures } from './figures.ts';
import { startOnCopy } from './server-on-copy.ts';

/** Each mode of pg_upgrade in a rehearsal, against the same pg_upgrade by hand on a copy of the same cluster, in turns. */
const GB = 2 ** 30;
const TABLES = 500;
const FILLER_MB = 400;
const ROUNDS = 3;
const run = promisify(execFile);
const as = SERVER_UID === undefined ? {} : { uid: SERVER_UID, gid: SERVER_UID };

const OLDS = [
  { from: 15, ...OLD },
  { from: 16, ...(await upgradePrograms(16)) },
  { from: 18, ...NEW },
];
const NEWS = { 18: NEW.programs, 19: await programsOf(19) };
const PAIRS = ([18, 19] as const).flatMap((to) =>
  OLDS.filter(({ from }) => from < to).map((old) => ({ ...old, to })),
);

describe.each(PAIRS)('from $from to $to', ({ from, to, programs, obstacle }) => {
  const skipped = cannotUpgrade || skipReason(obstacle);
  const newer = NEWS[to];
  let old: ServerToUpgrade;

  beforeAll(async () => {
    if (skipped) return;
    // From 18 on initdb makes checksums, and pg_upgrade wants them on both sides or on none.
    const options = from < 18 ? [] : ['--no-data-checksums'];
    old = await serverToUpgrade({ programs, make: (_, initdb) => initdb(...options) }, 8 * GB);
    await withClient(old.url, (client) => client.query(fill()));
  }, 600_000);
  afterAll(() => old?.stop());

  test.skipIf(skipped)('pg_upgrade takes as long in a rehearsal as by hand', async () => {
    const rehearsed = new Map<UpgradeMode, ModeSection[]>(UPGRADE_MODES.map((mode) => [mode, []]));
    const byHand = new Map<UpgradeMode, number[]>(UPGRADE_MODES.map((mode) => [mode, []]));
    const byTool = async () => {
      const { report, stderr } = await rehearseUpgradeOf(old.url, to, ['--new-bin', newer]);
      expect(report?.verdict.pass, stderr).toBe(true);
      for (const each of report?.modes ?? [])
        if (each.mode !== 'service') rehearsed.get(each.mode)?.push(each);
    };
    const manually = async () => {
      for (const [mode, durationMs] of await upgradeByHand(old, newer)) byHand.get(mode)?.push(durationMs);
    };
    for (let round = 0; round < ROUNDS; round++)
      for (const measure of round % 2 === 0 ? [byTool, manually] : [manually, byTool]) await measure();
    recordFigures(
      `PostgreSQL ${from} to ${to}, ${TABLES} tables and ${FILLER_MB} MB on XFS: seconds`,
      UPGRADE_MODES.map((mode) => rowOf(mode, rehearsed.get(mode) ?? [], byHand.get(mode) ?? [])),
      [
        `Medians of ${ROUNDS} rounds, in turns; by hand: the same pg_upgrade on a copy of the cluster that shares its blocks.`,
      ],
    );
  });
});

function rowOf(mode: UpgradeMode, rehearsed: readonly ModeSection[], byHand: readonly number[]) {
  const of = (name: string) =>
    median(rehearsed.map(({ phases }) => phases.find((phase) => phase.name === name)?.durationMs ?? 0));
  const [tool, hand] = [of('pg_upgrade'), median(byHand)];
  const seconds = (ms: number) => (ms / 1000).toFixed(2);
  return {
    mode,
    'pg_upgrade by hand': seconds(hand),
    'in a rehearsal': seconds(tool),
    'rehearsal / by hand': (tool / hand).toFixed(2),
    start: seconds(of('start')),
    'users wait': seconds(median(rehearsed.map(({ downtimeMs }) => downtimeMs ?? 0))),
  };
}

function fill(): string {
  const rows = Math.floor((FILLER_MB * 2 ** 20) / 1100);
  const tables = Array.from(
    { length: TABLES },
    (_, n) => `CREATE TABLE t${n} (id serial PRIMARY KEY, name text NOT NULL, at timestamptz DEFAULT now());`,
  );
  return `${tables.join('\n')}
    CREATE TABLE filler AS SELECT i AS id, repeat(md5(i::text), 32) AS text FROM generate_series(1, ${rows}) i;
    ANALYZE;`;
}

/** What a careful administrator would do on a copy: each mode on a copy of its own of one that was shut down. @returns milliseconds. */
async function upgradeByHand(
  { server }: ServerToUpgrade,
  programsOfNew: string,
): Promise<Map<UpgradeMode, number>> {
  const folder = path.join(server.folder, 'by-hand');
  await mkdir(folder);
  if (SERVER_UID !== undefined) await chown(folder, SERVER_UID, SERVER_UID);
  const programs = await programsOfServer(server.data);
  const [oldData, newData] = [path.join(folder, 'old'), path.join(folder, 'new')];
  await copyHot(server, programs, oldData);
  // The cache of the tests may be entered by its owner alone.
  const newer = await reachable(programsOfNew, folder);
  const words = ['-U', 'postgres', '--auth=trust', '--no-sync', '--no-data-checksums', '--locale=C.UTF-8'];
  await run(path.join(newer, 'initdb'), ['-D', newData, '-E', 'UTF8', ...words], {
    ...as,
    cwd: folder,
  });
  const times = new Map<UpgradeMode, number>();
  for (const mode of UPGRADE_MODES) {
    const place = path.join(folder, mode);
    await mkdir(place);
    if (SERVER_UID !== undefined) await chown(place, SERVER_UID, SERVER_UID);
    const of = { old: path.join(place, 'old'), new: path.join(place, 'new') };
    for (const name of ['old', 'new'] as const)
      await run('cp', ['-a', '--reflink=always', path.join(folder, name), of[name]]);
    const clusters = ['-b', programs, '-B', newer, '-d', of.old, '-D', of.new];
    const ports = ['-U', 'postgres', '-s', place, '-p', '54321', '-P', '54321'];
    const started = performance.now();
    await run(path.join(newer, 'pg_upgrade'), [...clusters, ...ports, `--${mode}`], {
      ...as,
      cwd: place,
    });
    times.set(mode, performance.now() - started);
    await rm(place, { recursive: true });
  }
  await rm(folder, { recursive: true });
  expect(times.size).toBe(UPGRADE_MODES.length);
  return times;
}

/** A copy in a backup, recovered and shut down. */
async function copyHot(
  { url, data }: ServerToUpgrade['server'],
  programs: string,
  copy: string,
): Promise<void> {
  await withClient(url, async (client) => {
    await client.query("SELECT pg_backup_start('by hand', true)");
    await run('cp', ['-a', '--reflink=always', data, copy]);
    const { rows } = await client.query<{ labelfile: string }>('SELECT labelfile FROM pg_backup_stop(false)');
    const again = 'rm -rf "$1"/pg_wal "$1"/postmaster.* && cp -a --reflink=always "$2"/pg_wal "$1"';
    await run('sh', ['-c', again, 'sh', copy, data]);
    const label = path.join(copy, 'backup_label');
    await writeFile(label, rows[0]?.labelfile ?? '');
    if (SERVER_UID !== undefined) await chown(label, SERVER_UID, SERVER_UID);
  });
  await appendFile(path.join(copy, 'postgresql.conf'), "shared_buffers = '32MB'\n");
  await startOnCopy(path.join(programs, 'postgres'), copy);
  await run(path.join(programs, 'pg_ctl'), ['stop', '-D', copy, '-m', 'fast', '-w'], { ...as, cwd: copy });
}

async function programsOfServer(data: string): Promise<string> {
  const [pid] = (await readFile(path.join(data, 'postmaster.pid'), 'utf8')).split('\n');
  const { stdout } = await run('readlink', [`/proc/${pid}/exe`]);
  return path.dirname(stdout.trim());
}
