import { readdir, readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import type { UpgradeMode } from '../model/upgrade-mode.ts';
import type { UpgradePhase, UpgradeReport } from '../model/upgrade-model.ts';
import { CLONE_PORT } from '../ownership/folder-records.ts';
import type { Clusters } from './new-cluster.ts';
import { runSandboxed, type SandboxedRun } from './sandboxed-programs.ts';
import type { UpgradePlan } from './upgrade-plan.ts';

/** From this version on copying has an option of its own. */
const HAS_COPY = 17;

/** The words of pg_upgrade for the clusters `old` and `new` in a folder. */
export function pgUpgradeWords(
  { prepared, old }: Pick<Clusters, 'prepared' | 'old'>,
  { jobs }: Pick<UpgradePlan, 'jobs'>,
  place: string,
  mode: UpgradeMode | 'check',
): string[] {
  const { newPrograms, oldPrograms } = prepared;
  const port = String(CLONE_PORT);
  const isDefault = mode === 'copy' && newPrograms.major < HAS_COPY;
  return [
    path.join(newPrograms.folder, 'pg_upgrade'),
    ...['-b', oldPrograms.folder, '-B', newPrograms.folder],
    ...['-d', mode === 'check' ? old.data : path.join(place, 'old'), '-D', path.join(place, 'new')],
    ...['-U', old.facts.superuser, '-s', old.copy.place.socketFolder, '-p', port, '-P', port],
    ...['-j', String(jobs)],
    ...(isDefault ? [] : [`--${mode}`]),
  ];
}

const LONGEST = 8;

/** pg_upgrade names a step, and adds `ok` when it is done. */
const STEP = /^(\S.*?)\s{2,}ok\s*$/;

/** The steps that took longest, in their order. */
export function longestSteps({ lines }: SandboxedRun): UpgradePhase['steps'] {
  const steps: UpgradePhase['steps'] = [];
  let before = 0;
  for (const { text, atMs } of lines) {
    // While it works on something it writes names over one another.
    const name = STEP.exec(text.split('\r').at(-1) ?? '')?.[1];
    if (name !== undefined) steps.push({ name, durationMs: atMs - before });
    before = atMs;
  }
  const longest = [...steps].sort((one, other) => other.durationMs - one.durationMs).slice(0, LONGEST);
  return steps.filter((step) => longest.includes(step));
}

/** Result of `pg_upgrade --check`. */
export interface UpgradeCheck extends NonNullable<UpgradeReport['check']> {
  /** The files that it wrote about what it found: their lines, by name. */
  readonly files: ReadonlyMap<string, readonly string[]>;
  /** Message of its refusal; empty if it did not refuse. */
  readonly refusal: readonly string[];
}

const LAST_LINES = 8;
const REFUSED_STEP = /\s(fatal|failed)$/;

/** Runs `pg_upgrade --check` on the copies, which it does not change. */
export async function checkUpgrade(clusters: Clusters, plan: UpgradePlan): Promise<UpgradeCheck> {
  const { sandbox } = clusters.old;
  // With --retain it keeps the lists of what it only warns of, too.
  const words = [...pgUpgradeWords(clusters, plan, sandbox.folder, 'check'), '--retain'];
  const run = await runSandboxed(sandbox, words);
  const output = outputOf(run);
  const passed = run.exitCode === 0;
  return {
    passed,
    durationMs: run.durationMs,
    output,
    refusal: passed ? [] : refusalIn(output),
    files: await takeFindings(path.join(sandbox.folder, 'new', 'pg_upgrade_output.d')),
  };
}

/** From the step that failed on; else the end, without the words that it failed. */
function refusalIn(output: readonly string[]): string[] {
  const step = output.findLastIndex((line) => REFUSED_STEP.test(line));
  const said = step < 0 ? output.slice(-LAST_LINES) : output.slice(step);
  return said
    .map((line) => line.replace(REFUSED_STEP, '').trim())
    .filter((line) => !/^Failure, exiting/.test(line));
}

/** A line of its output as it stands at the end: what it was working on is overwritten. */
export function outputOf({ lines }: Pick<SandboxedRun, 'lines'>): string[] {
  return lines.map(({ text }) => (text.split('\r').at(-1) ?? '').trimEnd()).filter((text) => text !== '');
}

/** Reads the lists of what it found, and removes them. They lie beside the folders of logs and dumps, in one for each run. */
async function takeFindings(folder: string): Promise<Map<string, string[]>> {
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
  await rm(folder, { recursive: true, force: true });
  return found;
}
