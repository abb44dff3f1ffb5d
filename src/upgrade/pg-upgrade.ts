import path from 'node:path';
import type { UpgradeMode } from '../model/upgrade-mode.ts';
import type { UpgradePhase } from '../model/upgrade-model.ts';
import { CLONE_PORT } from '../ownership/folder-records.ts';
import type { Clusters } from './new-cluster.ts';
import type { SandboxedRun } from './sandboxed-programs.ts';
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
