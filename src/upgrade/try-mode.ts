import { readdir, readFile, realpath, rm, statfs, symlink } from 'node:fs/promises';
import path from 'node:path';
import { floorOf } from '../clone/private/folder-location.ts';
import { SafemigrateError } from '../errors.ts';
import { formatBytes } from '../format.ts';
import { startCopied } from '../local-server/copied.ts';
import type { UpgradeMode } from '../model/upgrade-mode.ts';
import type { ModeSection, UpgradePhase } from '../model/upgrade-model.ts';
import { makeFolder } from '../ownership/folder-mark.ts';
import { uniqueBytesOf } from '../ownership/unique-bytes.ts';
import { type Cage, type CagedRun, endOf, runCaged, runWell, untilAborted } from './caged-programs.ts';
import type { Clusters } from './new-cluster.ts';
import { longestSteps, pgUpgradeWords } from './pg-upgrade.ts';
import type { UpgradePlan } from './upgrade-plan.ts';

/** Copy and clone leave the old cluster as it is. */
const LEAVES_OLD: Readonly<Record<UpgradeMode, boolean>> = {
  copy: true,
  clone: true,
  link: false,
  swap: false,
};

/** From this version on pg_upgrade carries the planner's statistics over, and vacuumdb finds what is missing. */
const CARRIES_STATISTICS = 18;
const HAS_SWAP = 18;

export function carriesStatistics(major: number): boolean {
  return major >= CARRIES_STATISTICS;
}

/** Upgrades a copy of the cluster in one mode, starts it, makes its statistics, and removes it. */
export async function tryMode(
  mode: UpgradeMode,
  clusters: Clusters,
  plan: UpgradePlan,
): Promise<ModeSection> {
  const wayBack = LEAVES_OLD[mode];
  const not = { mode, phases: [], downtimeMs: null, peakBytes: null, wayBack };
  const reason = await whySkipped(mode, clusters);
  if (reason !== null) return { ...not, outcome: 'skipped', reason };
  const place = path.join(clusters.old.cage.folder, mode);
  await copyClusters(clusters, place);
  try {
    const { old } = clusters;
    const before = await usedBytes(clusters, [path.join(place, 'old')]);
    const upgraded = await runCaged(old.cage, pgUpgradeWords(clusters, plan, place, mode));
    if (upgraded.exitCode !== 0)
      return { ...not, outcome: 'failed', reason: await explain(upgraded, path.join(place, 'new')) };
    const phases = [
      phase('initdb', clusters.fresh.initdbMs, false),
      { ...phase('pg_upgrade', upgraded.durationMs, true), steps: longestSteps(upgraded) },
      ...(await useNewServer(clusters, plan, place)),
    ];
    const downtimeMs = phases.reduce((sum, { down, durationMs }) => sum + (down ? durationMs : 0), 0);
    const peakBytes = await peakOf(mode, clusters, place, before);
    return { mode, outcome: 'passed', reason: null, phases, downtimeMs, peakBytes, wayBack };
  } finally {
    await rm(place, { recursive: true, force: true });
  }
}

async function whySkipped(mode: UpgradeMode, { prepared, old }: Clusters): Promise<string | null> {
  const { assessment, newPrograms, copy } = prepared;
  if (mode === 'swap' && newPrograms.major < HAS_SWAP) return `pg_upgrade has it from version ${HAS_SWAP} on`;
  const shares = sharesBlocks(assessment.strategy);
  if (mode === 'clone' && !shares) return 'the file system cannot share blocks between files';
  const size = old.facts.databases.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  const wanted = (shares ? 0 : size) + (mode === 'copy' ? size : 0);
  const { bavail, blocks, bsize } = await statfs(copy.folder);
  const free = bavail * bsize - floorOf(blocks * bsize);
  return free >= wanted
    ? null
    : `it takes ${formatBytes(wanted)} here, and ${formatBytes(Math.max(0, free))} may be taken`;
}

export function sharesBlocks(strategy: string): boolean {
  return strategy === 'reflink' || strategy === 'btrfs snapshot';
}

/** Makes `old` and `new` in the place, and copies of what links in `old` point to: tablespaces, in snapshots WAL as well. */
async function copyClusters({ old, fresh }: Clusters, place: string): Promise<void> {
  const { cage, copy, owner, data } = old;
  await makeFolder(place, owner);
  // Outside of the sandbox, and as the user that we are: who is root keeps the owners.
  const outside: Cage = { ...cage, through: [], user: undefined };
  const cp = ['cp', '-a', process.platform === 'darwin' ? '-c' : '--reflink=auto'];
  const mine = path.join(place, 'old');
  await copy.lease.during(async () => {
    await runWell(outside, [...cp, await realpath(data), mine]);
    await runWell(outside, [...cp, fresh.data, path.join(place, 'new')]);
    for (const link of await linksIn(mine)) {
      const own = path.join(place, `part-${path.basename(link)}`);
      await runWell(outside, [...cp, await partOf(link, cage.folder), own]);
      await rm(link);
      await symlink(own, link);
    }
  });
}

/** Resolves such a link. @throws SafemigrateError `CLONE` if it points out of the folder of the copy. */
async function partOf(link: string, folder: string): Promise<string> {
  const part = await realpath(link);
  if (part.startsWith(`${folder}/`)) return part;
  throw new SafemigrateError('CLONE', `${link} points to ${part}, out of the folder of the copy.`);
}

/** Lists the links to parts of the cluster that lie elsewhere. */
async function linksIn(data: string): Promise<string[]> {
  const entries = await Promise.all(
    [data, path.join(data, 'pg_tblspc')].map((folder) => readdir(folder, { withFileTypes: true })),
  );
  return entries
    .flat()
    .filter((entry) => entry.isSymbolicLink())
    .map(({ parentPath, name }) => path.join(parentPath, name));
}

/** Starts the upgraded server, has its statistics made, and stops it. */
async function useNewServer(
  { prepared, old, fresh }: Clusters,
  { jobs }: UpgradePlan,
  place: string,
): Promise<UpgradePhase[]> {
  const { cage, copy, facts } = old;
  const { folder: programs, major } = prepared.newPrograms;
  const data = path.join(place, 'new');
  const started = performance.now();
  const settings = { ...fresh.settings, data_directory: data };
  const server = await copy.lease.during(() =>
    startCopied({ ...cage, programs, data, log: path.join(place, 'new.log'), settings }),
  );
  const startMs = performance.now() - started;
  const login = ['-h', copy.place.socketFolder, '-p', '5432', '-U', facts.superuser, '-j', String(jobs)];
  const missing = carriesStatistics(major) ? ['--missing-stats-only'] : [];
  const vacuumdb = path.join(programs, 'vacuumdb');
  const analyzed = await runWell(cage, [vacuumdb, '--all', '--analyze-in-stages', ...missing, ...login]);
  await copy.lease.during(() => untilAborted(server.stop(), cage.signal));
  const first = endOfFirstStage(analyzed);
  return [
    phase('start', startMs, true),
    // Without any statistics the plans are too bad to work with.
    phase('first statistics', first, !carriesStatistics(major)),
    phase('statistics', analyzed.durationMs - first, false),
  ];
}

/** vacuumdb goes through all databases in each of its three stages, and names the stage. */
export function endOfFirstStage({ lines, durationMs }: CagedRun): number {
  return lines.find(({ text }) => text.includes('(10 targets)'))?.atMs ?? durationMs;
}

function phase(name: UpgradePhase['name'], durationMs: number, down: boolean): UpgradePhase {
  return { name, durationMs, down, steps: [] };
}

/** Disk space in use; a file with several links counts once. */
async function usedBytes({ old: { cage } }: Clusters, folders: readonly string[]): Promise<number> {
  const { lines } = await runWell({ ...cage, through: [], user: undefined }, ['du', '-skc', ...folders]);
  return Number(lines.at(-1)?.text.split('\t')[0]) * 1024;
}

async function peakOf(
  mode: UpgradeMode,
  clusters: Clusters,
  place: string,
  before: number,
): Promise<number | null> {
  const data = path.join(place, 'new');
  if (mode === 'clone') {
    // du does not know which blocks are shared.
    const own = await uniqueBytesOf(data);
    return typeof own === 'number' ? own : null;
  }
  return Math.max(0, (await usedBytes(clusters, [path.join(place, 'old'), data])) - before);
}

/** The reason of pg_upgrade, with the end of the log that it names. */
async function explain(run: CagedRun, data: string): Promise<string> {
  const log = run.lines
    .map(({ text }) => /"(\/[^"]+\.log)"/.exec(text)?.[1])
    .findLast((file) => file?.startsWith(data));
  const more = log === undefined ? '' : await readFile(log, 'utf8').catch(() => '');
  const tail = more.trim().split('\n').slice(-6).join('\n  ');
  return `${endOf(run)}${tail === '' ? '' : `\n  ${tail}`}`;
}
