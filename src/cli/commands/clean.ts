import { SafemigrateError } from '../../errors.ts';
import { visible } from '../../report/visible.ts';
import { openSession } from '../../target/connect.ts';
import { openMaintenanceSession } from '../../upkeep/claim.ts';
import { type CleanOptions, clean } from '../../upkeep/clean.ts';
import { cleanExternals } from '../../upkeep/external-clones.ts';
import { cleanFolders } from '../../upkeep/folder-clones.ts';
import { EXIT } from '../exit-codes.ts';
import { CLEAN_OPTIONS } from '../options.ts';
import { findNamedPlace, gatherOptions, type NamedPlace, nameServer } from '../read-options.ts';
import { NOTHING_HERE } from './list.ts';

/** What became of one database or folder. */
interface Outcome {
  readonly what: 'opened' | 'dropped' | 'removed' | 'left' | 'failed';
  readonly words: string;
}

/**
 * Drops what has no living owner, and says what it dropped, what it left, and why: folders of this machine, and, where a
 * target is named, databases of its server. The folders are cleaned also when the server does not answer.
 */
export async function cleanCommand(flags: Record<string, unknown>, signal: AbortSignal): Promise<number> {
  const options = await gatherOptions(CLEAN_OPTIONS, flags);
  const kept = options.kept ?? false;
  const outcomes = [...(await foldersCleaned(kept)), ...(await externalsCleaned(kept))];
  outcomes.forEach(print);
  const target = findNamedPlace(options);
  if (target) {
    const more = await databasesCleaned(target, { kept, ...originalsToDrop(options) }, signal);
    more.forEach(print);
    outcomes.push(...more);
  }
  if (outcomes.length === 0)
    process.stdout.write(target ? `Nothing to clean on ${nameServer(target)}.\n` : NOTHING_HERE);
  return outcomes.some(({ what }) => what === 'failed') ? EXIT.cannotRehearse : EXIT.passed;
}

async function foldersCleaned(kept: boolean): Promise<Outcome[]> {
  const { removed, left, failed } = await cleanFolders({ kept });
  return [
    ...removed.map((folder) => ({ what: 'removed' as const, words: folder })),
    ...left.map(({ folder, reason }) => ({ what: 'left' as const, words: `${folder}: ${reason}` })),
    ...failed.map(({ folder, reason }) => ({ what: 'failed' as const, words: `${folder}: ${reason}` })),
  ];
}

async function externalsCleaned(kept: boolean): Promise<Outcome[]> {
  const { removed, left, failed } = await cleanExternals({ kept });
  const words = ({ name, reason }: { name: string; reason: string }) => `${name}: ${reason}`;
  return [
    ...removed.map((name) => ({ what: 'removed' as const, words: name })),
    ...left.map((each) => ({ what: 'left' as const, words: words(each) })),
    ...failed.map((each) => ({ what: 'failed' as const, words: words(each) })),
  ];
}

function originalsToDrop({ originals, olderThan }: { originals?: boolean; olderThan?: number }) {
  if (originals) return { originals: olderThan === undefined ? {} : { olderThanMs: olderThan } };
  if (olderThan === undefined) return {};
  throw new SafemigrateError('USAGE', '--older-than goes with --originals.', {
    hint: 'Nothing was dropped. Kept clones go by --kept, whatever their age.',
  });
}

async function databasesCleaned(
  target: NamedPlace,
  wanted: Omit<CleanOptions, 'enter'>,
  signal: AbortSignal,
): Promise<Outcome[]> {
  const session = await openMaintenanceSession(target, { purpose: 'clean', signal });
  try {
    const enter = (database: string) => openSession(target.settings, { database, purpose: 'clean', signal });
    const { reopened, dropped, left, failed } = await clean(session, { ...wanted, enter });
    return [
      ...reopened.map(({ name }) => ({
        what: 'opened' as const,
        words: `${name}, which the swap of a dead run had closed`,
      })),
      ...dropped.map(({ name }) => ({ what: 'dropped' as const, words: name })),
      ...left.map(({ database, reason }) => ({
        what: 'left' as const,
        words: `${database.name}: ${reason}`,
      })),
      ...failed.map(({ database, reason }) => ({
        what: 'failed' as const,
        words: `${database.name}: ${reason}`,
      })),
    ];
  } finally {
    await session.close();
  }
}

function print({ what, words }: Outcome): void {
  const stream = what === 'failed' ? process.stderr : process.stdout;
  stream.write(`${what === 'dropped' || what === 'removed' ? what : what.padEnd(7)} ${visible(words)}\n`);
}
