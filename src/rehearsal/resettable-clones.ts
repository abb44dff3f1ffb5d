import { readScripts } from '../clone/after-clone.ts';
import { chooseMethod } from '../clone/choose.ts';
import { inspectTarget } from '../database/inspect.ts';
import { locateTarget } from '../database/locate.ts';
import { SafemigrateError } from '../errors.ts';
import { inPhase } from '../events.ts';
import type { FolderEntry } from '../ownership/folder-records.ts';
import { newRunId } from '../ownership/run-id.ts';
import { readEnvironment } from '../postgres/connection/environment.ts';
import { makeClone } from './clone-again.ts';
import { makeCloneContext } from './clone-context.ts';
import type { RehearsalPlan } from './plan.ts';
import { withScope } from './with-scope.ts';

export interface ResettableClone {
  readonly entry: FolderEntry;
  /** The role and the database to connect with. */
  readonly user: string;
  readonly database: string;
}

/**
 * Makes clones of the target's cluster that stay, and that can be reset: all of the same state.
 * @throws SafemigrateError `CLONE` also if the files of the target cannot share blocks.
 */
export async function makeResettableClones(plan: RehearsalPlan, count: number): Promise<ResettableClone[]> {
  const { audit, clone: options } = plan;
  const { result } = await withScope(plan, async (scope, stop) => {
    const { signal } = stop;
    const environment = readEnvironment(plan.command.env, plan.command.folder);
    const afterClone = readScripts(options.afterClone, environment.folder);
    const located = locateTarget(plan.target, environment);
    const target = await inspectTarget(located.settings, located.source, { audit, signal });
    const context = await makeCloneContext(target, environment, { scope, stop }, plan);
    const choice = await chooseMethod(context, 'cluster');
    if (choice.assessment.strategy === 'copy') throw unshared(choice.assessment.reason);
    // A ZFS clone of a clone could not outlive it: then each is made of the target.
    const each = choice.assessment.strategy === 'zfs snapshot' ? 1 : count;
    const made: ResettableClone[] = [];
    while (made.length < count) {
      const own = made.length === 0 ? context : { ...context, run: newRunId() };
      const clone = await inPhase(plan.emit, 'clone', () =>
        makeClone(own, { choice, afterClone }, scope, plan.proxy),
      );
      const entries = (await clone.keepResettable?.(each)) ?? [];
      const { user } = clone.connect;
      made.push(...entries.map((entry) => ({ entry, user, database: clone.database })));
    }
    return made;
  });
  return result;
}

function unshared(reason: string): SafemigrateError {
  return new SafemigrateError(
    'CLONE',
    `A clone that can be reset needs files that share blocks: ${reason}.`,
    {
      hint: 'The target was not touched. `safemigrate doctor` says what its file system lacks; --clone-dir may name a folder on another one.',
    },
  );
}
