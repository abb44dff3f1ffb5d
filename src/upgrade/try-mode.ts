import { readdir, readFile, realpath, rm, statfs, symlink } from 'node:fs/promises';
import path from 'node:path';
import { sharingOf } from '../clone/cluster/estimate-cluster.ts';
import { floorOf } from '../clone/private/private-server.ts';
import { SafemigrateError } from '../errors.ts';
import { formatBytes } from '../format.ts';
import type { UpgradeMode } from '../model/upgrade-mode.ts';
import type { ModeSection, PostUpgradeCommand } from '../model/upgrade-model.ts';
import { makeFolder } from '../ownership/folder-records.ts';
import { uniqueBytesOf } from '../ownership/unique-bytes.ts';
import type { Lifetime } from '../rehearsal/with-scope.ts';
import type { Clusters } from './new-cluster.ts';
import { longestSteps, pgUpgradeWords } from './pg-upgrade.ts';
import {
  complaintIn,
  endOf,
  runSandboxed,
  runWell,
  type SandboxedRun,
  type UpgradeSandbox,
} from './sandboxed-programs.ts';
import type { UpgradePlan } from './upgrade-plan.ts';
import { phase, type UsedServer, useUpgraded } from './use-upgraded.ts';

/** Copy and clone leave the old cluster as it is. */
const LEAVES_OLD: Readonly<Record<UpgradeMode, boolean>> = {
  copy: true,
  clone: true,
  link: false,
  swap: false,
};

const HAS_SWAP = 18;

/** Result of a mode; `used` is null unless its server was started. */
export interface TriedMode {
  readonly section: ModeSection;
  readonly used: UsedServer | null;
}

/**
 * Upgrades a copy of the cluster in one mode, uses its server, and removes it.
 * @param asks whether the application is to be tried there.
 */
export async function tryMode(
  life: Lifetime,
  mode: UpgradeMode,
  clusters: Clusters,
  plan: UpgradePlan,
  asks: boolean,
): Promise<TriedMode> {
  const wayBack = LEAVES_OLD[mode];
  const not = { mode, phases: [], downtimeMs: null, peakBytes: null, wayBack };
  const why = await whySkipped(mode, clusters);
  if (why !== null) return { section: { ...not, outcome: 'skipped', reason: why }, used: null };
  const place = path.join(clusters.old.sandbox.folder, mode);
  await copyClusters(clusters, place);
  try {
    const { old } = clusters;
    const before = await usedBytes(clusters, [path.join(place, 'old')]);
    const upgraded = await runSandboxed(old.sandbox, pgUpgradeWords(clusters, plan, place, mode));
    if (upgraded.exitCode !== 0) {
      const reason = await explain(upgraded, path.join(place, 'new'));
      return { section: { ...not, outcome: 'failed', reason }, used: null };
    }
    const used = await useUpgraded(life, clusters, plan, { place, asks });
    const phases = [
      phase('initdb', clusters.fresh.initdbMs, false),
      { ...phase('pg_upgrade', upgraded.durationMs, true), steps: longestSteps(upgraded) },
      ...used.phases,
    ];
    const reason = whyCommandFailed(used.command);
    if (reason !== null) {
      return { section: { ...not, phases, outcome: 'failed', reason }, used };
    }
    const downtimeMs = phases.reduce((sum, { down, durationMs }) => sum + (down ? durationMs : 0), 0);
    const peakBytes = await peakOf(mode, clusters, place, before);
    return {
      section: { mode, outcome: 'passed', reason: null, phases, downtimeMs, peakBytes, wayBack },
      used,
    };
  } finally {
    await rm(place, { recursive: true, force: true });
  }
}

/** @returns null if it did not fail. */
export function whyCommandFailed(command: PostUpgradeCommand | null): string | null {
  if (command === null || command.exitCode === 0) return null;
  const error = command.statements.find((statement) => statement.error !== null)?.error;
  return `the command failed on the upgraded server${error ? `: ${error.message}` : ''}`;
}

async function whySkipped(mode: UpgradeMode, { prepared, old }: Clusters): Promise<string | null> {
  const { assessment, newPrograms, copy } = prepared;
  if (mode === 'swap' && newPrograms.major < HAS_SWAP) return `pg_upgrade has it from version ${HAS_SWAP} on`;
  const shares = sharingOf(assessment.strategy).bySingleFiles;
  if (mode === 'clone' && !shares) return 'the file system cannot share blocks between files';
  const size = old.facts.databases.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  const wanted = (shares ? 0 : size) + (mode === 'copy' ? size : 0);
  const { bavail, blocks, bsize } = await statfs(copy.folder);
  const free = bavail * bsize - floorOf(blocks * bsize);
  return free >= wanted
    ? null
    : `it takes ${formatBytes(wanted)} here, and ${formatBytes(Math.max(0, free))} may be taken`;
}

/** Disk space in use; a file with several links counts once. */
async function usedBytes({ old: { sandbox } }: Clusters, folders: readonly string[]): Promise<number> {
  const { lines } = await runWell({ ...sandbox, through: [], user: undefined }, ['du', '-skc', ...folders]);
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

/** Ends the line of the step, or of the database within it, in which pg_upgrade gave up. */
const FAILED_STEP = /\s+(\*failure\*|fatal|failed)\s*$/;

/** The reason of pg_upgrade: what the log that it names says, since that is gone with the copy; else its own words. */
async function explain(run: SandboxedRun, data: string): Promise<string> {
  const log = run.lines
    .map(({ text }) => /"(\/[^"]+\.log)"/.exec(text)?.[1])
    .findLast((file) => file?.startsWith(data));
  const more = log === undefined ? '' : await readFile(log, 'utf8').catch(() => '');
  const step = run.lines.findLast(({ text }) => FAILED_STEP.test(text))?.text ?? '';
  const name = (step.split('\r').at(-1) ?? '').replace(FAILED_STEP, '').trim();
  if (more.trim() === '') return endOf(run);
  return `${name === '' ? '' : `${name}: `}${complaintIn(more.split('\n'))}`;
}

/** Makes `old` and `new` in the place, and copies of what links in `old` point to: tablespaces, in snapshots WAL as well. */
export async function copyClusters({ old, fresh }: Clusters, place: string): Promise<void> {
  const { sandbox, copy, owner, data } = old;
  await makeFolder(place, owner);
  // Outside of the sandbox, and as the user that we are: who is root keeps the owners.
  const outside: UpgradeSandbox = { ...sandbox, through: [], user: undefined };
  const cp = ['cp', '-a', process.platform === 'darwin' ? '-c' : '--reflink=auto'];
  const mine = path.join(place, 'old');
  await copy.lease.during(async () => {
    await runWell(outside, [...cp, await realpath(data), mine]);
    await runWell(outside, [...cp, fresh.data, path.join(place, 'new')]);
    for (const link of await linksIn(mine)) {
      const own = path.join(place, `part-${path.basename(link)}`);
      await runWell(outside, [...cp, await partOf(link, sandbox.folder), own]);
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
