import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import type { UpgradeReport } from '../model/upgrade-model.ts';
import { type CagedRun, runCaged } from './caged-programs.ts';
import type { Clusters } from './new-cluster.ts';
import { pgUpgradeWords } from './pg-upgrade.ts';
import type { UpgradePlan } from './upgrade-plan.ts';

/** What `pg_upgrade --check` said. */
export interface UpgradeCheck extends NonNullable<UpgradeReport['check']> {
  /** The files that it wrote about what it found: their lines, by name. */
  readonly files: ReadonlyMap<string, readonly string[]>;
}

/** Runs `pg_upgrade --check` on the copies, which it does not change. */
export async function checkUpgrade(clusters: Clusters, plan: UpgradePlan): Promise<UpgradeCheck> {
  const { cage } = clusters.old;
  const run = await runCaged(cage, pgUpgradeWords(clusters, plan, cage.folder, 'check'));
  return {
    passed: run.exitCode === 0,
    durationMs: run.durationMs,
    output: outputOf(run),
    files: await readFindings(path.join(cage.folder, 'new', 'pg_upgrade_output.d')),
  };
}

/** A line of its output as it stands at the end: what it was working on is overwritten. */
export function outputOf({ lines }: Pick<CagedRun, 'lines'>): string[] {
  return lines.map(({ text }) => (text.split('\r').at(-1) ?? '').trimEnd()).filter((text) => text !== '');
}

/** Reads the lists of what it found. They lie beside the folders of logs and dumps, in one for each run. */
async function readFindings(folder: string): Promise<Map<string, string[]>> {
  const found = new Map<string, string[]>();
  for (const run of await readdir(folder).catch(() => []))
    for (const name of await readdir(path.join(folder, run))) {
      if (!name.endsWith('.txt')) continue;
      const text = await readFile(path.join(folder, run, name), 'utf8');
      found.set(
        name,
        text.split('\n').filter((line) => line.trim() !== ''),
      );
    }
  return found;
}
