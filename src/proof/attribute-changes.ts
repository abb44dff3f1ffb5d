import type { SchemaChange, TargetConnection, TargetSection } from '../model/report.ts';
import type { Contacts } from './new-sessions.ts';
import { type Author, compareShared, type OwnTransactions, type SharedChange } from './shared-changes.ts';
import { type TargetState, writtenCatalogues } from './target-state.ts';

export type TargetChange = TargetSection['changes'][number];

/** Observations of the command by the proxy and by the watch over the target's sessions. */
export interface SeenCommand extends Omit<Contacts, 'caveats' | 'dialled'> {
  readonly reachedClone: boolean;
  /** It sent a CREATE DATABASE or DROP DATABASE. */
  readonly madeDatabases: boolean;
  /** Databases that it made for itself, which are dropped at the end. */
  readonly ownDatabases: readonly string[];
  /** A process of this machine may have connected to the target's server, besides us and without being seen. */
  readonly mayHaveDialled: boolean;
  /** The target's Unix sockets are on this machine and open to it, and its role may log in for replication. */
  readonly mayReplicateUnseen: boolean;
  /** Command tags of statements that the target's server ran, that reach beyond the clone, and that were not read before. */
  readonly ranUnseen: readonly string[];
  /** The first code that it ran and that is not known to stay within the clone, and how far it could reach; null if all is known. */
  readonly notKnown: {
    readonly what: string;
    readonly reaches: "the target's server" | 'this machine';
  } | null;
  /** Its role, or a function that it could call, may change more there than is compared. */
  readonly mayActUnseen: boolean;
  /** Processes that it left running. */
  readonly leftRunning: readonly { readonly pid: number; readonly command: string }[];
  /** Transactions of each run, if the clone is in the target's server: the ids mean nothing in another one. */
  readonly transactions: readonly Pick<OwnTransactions, 'authorOf'>[];
  /** Changes that the command made on the clone. */
  readonly cloneChanges: readonly SchemaChange[];
  /** The clone is in the target's server, and code may have run there whose statements were not seen: functions, blocks. */
  readonly ranHiddenCode: boolean;
  /** Its processes could connect to nothing but the proxy. */
  readonly sandboxed: boolean;
  /** Neither it nor its clone could connect to the target's server: it was sandboxed, and the clone has no network. */
  readonly confined: boolean;
  /** Ids of the transactions of --after-clone, if the clone is in the target's server. */
  readonly afterClone: readonly number[];
}

/** Who else could have made a change. */
export interface Suspects {
  /** Somebody else was connected to the server. */
  readonly others: boolean;
  /** Somebody else had a session in the target, and none of those there may have worked for the command. */
  readonly othersInTarget: boolean;
  /** Each session that came to any database of the server is accounted for, and none was the command's. */
  readonly noStranger: boolean;
}

export interface TargetStates {
  /** Before the clone was made. */
  readonly before: TargetState;
  /** Right before the command ran. */
  readonly start: TargetState;
  readonly after: TargetState;
}

const CONFINED = {
  madeBy: 'others',
  evidence: 'neither the command nor its clone had a way to the target',
} as const;
const BEFORE_IT_RAN = 'it was there before the command ran';

/**
 * Lists the changes of the target since `before`, and says of each who made it. What changed before the command ran was made
 * by others. Of the rest an author is named only if there is evidence; else the author is unknown, and a person must look.
 * @param targetChanges what the target's schema has different from the clone's before the command.
 */
export function attributeChanges(
  states: TargetStates,
  targetChanges: readonly SchemaChange[],
  command: SeenCommand,
  suspects: Suspects,
): TargetChange[] {
  const { before, start, after } = states;
  const isOwn = ({ object, verb }: SharedChange) =>
    object.database !== null &&
    command.ownDatabases.includes(object.database) &&
    (object.kind === 'database settings' || (object.kind === 'database' && verb === 'created'));
  const earlier = compareShared(before.shared, start.shared);
  const since = compareShared(start.shared, after.shared).filter((change) => !isOwn(change));
  const author =
    writtenCatalogues(start, after).length === 0
      ? ({ madeBy: 'others', evidence: BEFORE_IT_RAN } as const)
      : authorOfSchemaChange(targetChanges, command, suspects);
  return [
    ...describeWritten(writtenCatalogues(before, after), targetChanges).map((what) => ({ what, ...author })),
    ...earlier.map((change) => ({ what: change.what, ...authorOfEarlierChange(change, command) })),
    ...since.map((change) => ({ what: change.what, ...authorOfSharedChange(change, command, suspects) })),
  ];
}

function describeWritten(catalogues: readonly string[], changes: readonly SchemaChange[]): string[] {
  if (catalogues.length === 0) return [];
  if (changes.length > 0) {
    const made = changes.filter(({ verb }) => verb === 'create').map(({ object }) => object);
    // Owner and privileges of a new object are part of its creation.
    const shown = changes.filter(({ verb, object }) => verb === 'create' || !made.includes(object));
    return shown.map(({ verb, kind, object }) => `${verb} ${kind} ${object}`);
  }
  // A new file for a relation (TRUNCATE, REINDEX, VACUUM FULL) leaves the schema as it was.
  return [`rows of ${catalogues.join(', ')} were written, and the schema is the same`];
}

function authorOfEarlierChange({ xmin }: SharedChange, { afterClone }: SeenCommand): Author {
  return xmin !== null && afterClone.includes(xmin)
    ? { madeBy: 'command', evidence: `a script of --after-clone wrote it, in transaction ${xmin}` }
    : { madeBy: 'others', evidence: BEFORE_IT_RAN };
}

/** Says who changed what all databases of the server share: it can be changed from a clone in this server, too. */
function authorOfSharedChange(
  change: SharedChange,
  { targetConnections, transactions, madeDatabases, ranHiddenCode, confined }: SeenCommand,
  { others, noStranger }: Suspects,
): Author {
  const authors = transactions.map((run) => run.authorOf(change));
  const own = authors.find(({ madeBy }) => madeBy === 'command') ?? connectedAuthor(targetConnections);
  if (own) return own;
  if (confined && change.uncounted !== 'file') return CONFINED;
  // So rare that a person should look, also beside others.
  if (change.uncounted === 'dropped slot')
    return { madeBy: 'unknown', evidence: 'it was dropped while the command ran, and nothing shows by whom' };
  if (change.markedBy !== null)
    return { madeBy: 'others', evidence: `${change.markedBy} of safemigrate marked the database` };
  // Neither runs in a function or a block, so that the proxy saw all of the command's own.
  if (change.object.kind === 'database' && change.verb !== 'altered' && !madeDatabases)
    return { madeBy: 'others', evidence: 'the command made and dropped no database' };
  if (!ranHiddenCode && noStranger && change.uncounted === null)
    return {
      madeBy: 'others',
      evidence:
        'the command sent no statement that could do it, and each session on the server is accounted for',
    };
  const { evidence } = authors[0] ?? { evidence: 'it changed while the command ran' };
  return others
    ? { madeBy: 'unproved', evidence: `${evidence}; others were connected to the server` }
    : { madeBy: 'unknown', evidence };
}

function authorOfSchemaChange(
  targetChanges: readonly SchemaChange[],
  { targetConnections, reachedClone, cloneChanges, confined, sandboxed, ranHiddenCode }: SeenCommand,
  { others, othersInTarget }: Suspects,
): Author {
  const connected = connectedAuthor(targetConnections);
  if (connected) return connected;
  if (confined) return CONFINED;
  if (sandboxed && !ranHiddenCode)
    return {
      madeBy: 'others',
      evidence: 'the command was sandboxed, and sent no statement that could do it',
    };
  const isSame = targetChanges.some((change) =>
    cloneChanges.some(({ kind, object }) => kind === change.kind && object === change.object),
  );
  const since = 'it changed while the command ran';
  if (isSame)
    return { madeBy: 'unknown', evidence: `${since}, and the command makes the same change on the clone` };
  if (!reachedClone)
    return { madeBy: 'unknown', evidence: `${since}, and the command never connected to the clone` };
  if (othersInTarget)
    return {
      madeBy: 'others',
      evidence:
        'others had sessions in the target; the command worked on the clone, and makes no such change there',
    };
  return others
    ? { madeBy: 'unproved', evidence: `${since}, and no session in the target is known to have made it` }
    : { madeBy: 'unknown', evidence: `${since}, and no other session was connected` };
}

function connectedAuthor([first]: readonly TargetConnection[]): Author | undefined {
  if (!first) return undefined;
  const { process: owner, user } = first;
  return { madeBy: 'command', evidence: `${owner.command} connected to the target as ${user}` };
}
