import { compareTarget, type TargetComparison } from '../observe/compare-target.ts';
import type { TargetState } from '../observe/target-state.ts';
import type { AfterCommand, BeforeCommand } from './clone-steps.ts';
import type { ExtraRuns } from './run-again.ts';
import type { CloneRun, CloneSetup } from './run-on-clone.ts';
import { sharesServer, uninterrupted } from './slices.ts';

/** What compareWithTarget() goes by. */
export interface RanOnClone {
  readonly stateBefore: TargetState;
  readonly before: BeforeCommand;
  readonly ran: CloneRun;
  readonly after: AfterCommand;
  readonly again: ExtraRuns;
}

const OF_DATABASES = new Set(['CREATE DATABASE', 'DROP DATABASE']);

/** Reads the target once more, and says who changed it if it is not as it was. */
export function compareWithTarget(
  { context, clone, schema }: CloneSetup,
  { stateBefore, before, ran, after, again }: RanOnClone,
): Promise<TargetComparison> {
  const runs = [ran, ...again.runs];
  const statements = [...after.seen.statements, ...again.statements];
  return compareTarget(uninterrupted(context), {
    before: stateBefore,
    start: before.start,
    command: {
      reachedClone: ran.wire.reached(),
      madeDatabases: statements.some(({ tag }) => OF_DATABASES.has(tag ?? '')),
      ownDatabases: clone.made.names,
      targetConnections: runs.flatMap(({ targetConnections }) => targetConnections),
      others: runs.flatMap(({ others }) => others),
      transactions: sharesServer(context, clone) ? runs.map(({ wire }) => wire.transactions) : [],
      cloneChanges: after.observed.schema?.changes ?? [],
    },
    describeTarget: () => schema.describe(context.target.settings),
  });
}
