import type { ActivitySession } from '../../database/activity.ts';
import { preparedTransactions } from '../../database/activity.ts';
import { ownershipStatements } from '../../database/privileges.ts';
import { SafemigrateError } from '../../errors.ts';
import { formatBytes, formatDuration } from '../../format.ts';
import { identifier } from '../../postgres/sql/quote.ts';
import type { Assessment, CloneContext } from '../method.ts';
import { type FileSystems, inspectFileSystems } from './filesystem.ts';
import { clientSessions, pauseBetweenTries } from './sessions.ts';

/** Space that a copy must leave on the server's disk. */
const FREE_AFTER_COPY = 0.1;

export async function assessTemplate(context: CloneContext): Promise<Assessment> {
  const { role, database } = context.target;
  const creates = role.superuser || role.createdb;
  const owns = role.superuser || database.owned || database.isTemplate;
  if (!creates || !owns) {
    const lacking = [
      ...(creates ? [] : [`the role ${role.name} may not create databases`]),
      ...(owns
        ? []
        : [`${role.name} does not own ${database.name}, and only owners may clone a database by TEMPLATE`]),
    ];
    const statements = [
      ...(creates ? [] : [`ALTER ROLE ${identifier(role.name)} CREATEDB;`]),
      ...(owns ? [] : [ownershipStatements(context.target).grant]),
    ];
    return { possible: false, reason: lacking.join('; '), enable: statements.join(' ') };
  }
  const fileSystems = await inspectFileSystems(context.control, context.target);
  const ranking = rankHere(context, fileSystems.canShare !== 'no');
  const [best] = ranking;
  if (!best) throw new Error('no strategy is left');
  const bytes = best.strategy === 'clone' ? 0 : database.sizeBytes;
  const { freeBytes } = fileSystems;
  if (freeBytes !== null && bytes * (1 + FREE_AFTER_COPY) > freeBytes) {
    return {
      possible: false,
      reason: `a copy takes ${formatBytes(bytes)}, and ${formatBytes(freeBytes)} are free on the server's disk`,
      enable:
        'free some space, or put the data on a file system that shares blocks (XFS, btrfs, ZFS) under PostgreSQL 18',
    };
  }
  return {
    possible: true,
    strategy: best.strategy,
    readyMs: best.milliseconds,
    stallMs: best.milliseconds,
    bytes,
    endsSessions: await isInUse(context),
    isolation: 'same-cluster',
    containment: context.rehearsal ? 'other-server' : 'target-server',
    reason: explain(context, fileSystems, ranking),
  };
}

/**
 * Finds what prevents the clone: a prepared transaction does, as sessions do. Our own sessions in the target end by themselves.
 */
async function isInUse({ control, target: { database } }: CloneContext): Promise<boolean> {
  const sessions = await clientSessions(control, database.oid);
  const others = sessions.filter(({ application }) => !application.startsWith('safemigrate '));
  return others.length > 0 || (await preparedTransactions(control, database.name)).length > 0;
}

/** Ranks the strategies that are possible here, cheapest first by estimate. */
export function rankHere(context: CloneContext, sharesBlocks: boolean): Estimate[] {
  const { server, database } = context.target;
  return rank({
    versionNum: server.versionNum,
    sharesBlocks,
    bytes: database.sizeBytes,
    files: database.files,
  });
}

const WORDS: Record<TemplateStrategy, string> = {
  clone: 'files cloned',
  copy: 'files copied',
  wal_log: 'pages copied through WAL',
};

function explain(context: CloneContext, fileSystems: FileSystems, ranking: Estimate[]): string {
  const { server, database } = context.target;
  const [best, ...others] = ranking;
  const size = `${formatBytes(database.sizeBytes)} in about ${database.files} files`;
  const against = others.map((other) => `${other.strategy} ${formatDuration(other.milliseconds)}`).join(', ');
  const sentences = [
    `${best ? WORDS[best.strategy] : ''}: estimated ${formatDuration(best?.milliseconds ?? 0)} for ${size}` +
      (against ? ` (${against})` : ''),
  ];
  if (server.versionNum < 150000) sentences.push('version 14 always copies files');
  else if (server.versionNum < 180000) sentences.push('cloning files needs PostgreSQL 18');
  else if (fileSystems.canShare === 'no') sentences.push(`${fileSystems.description} cannot share blocks`);
  else if (best?.strategy === 'clone' && fileSystems.canShare === 'perhaps')
    sentences.push(
      `${fileSystems.description} shares blocks if it was created with that feature, which cannot be seen from here`,
    );
  else if (fileSystems.canShare === 'unknown')
    sentences.push(`whether blocks can be shared is not known (${fileSystems.description})`);
  return sentences.join('; ');
}

/**
 * Estimates the cost of CREATE DATABASE … TEMPLATE, per strategy. The coefficients were measured on PostgreSQL 18 with local
 * disks (XFS and ext4; 7 MB to 1.5 GB, 300 to 40,000 files); disks differ by a factor of several, so they serve to
 * choose and to warn, and are shown as estimates.
 */
export type TemplateStrategy = 'clone' | 'copy' | 'wal_log';

const MB = 1024 * 1024;

/** Costs; those of a file are for opening, creating and later syncing it. */
const COSTS: Record<TemplateStrategy, Record<'fixedMs' | 'perFileMs' | 'bytesPerMs', number>> = {
  /** Two checkpoints; blocks are shared, so the size hardly matters. */
  clone: { fixedMs: 50, perFileMs: 0.115, bytesPerMs: 20_000 * 1000 },
  /** Two checkpoints; 250 MB/s cold, 1,500 MB/s from the page cache. */
  copy: { fixedMs: 50, perFileMs: 0.14, bytesPerMs: (300 * MB) / 1000 },
  /** No checkpoint; every page goes through WAL, 200 to 500 MB/s. */
  wal_log: { fixedMs: 40, perFileMs: 0.07, bytesPerMs: (220 * MB) / 1000 },
};

type Estimate = ReturnType<typeof estimate>;

export function estimate(strategy: TemplateStrategy, size: { bytes: number; files: number }) {
  const { fixedMs, perFileMs, bytesPerMs } = COSTS[strategy];
  const milliseconds = Math.round(fixedMs + perFileMs * size.files + size.bytes / bytesPerMs);
  return { strategy, milliseconds };
}

/** Ranks the strategies that this server has, cheapest first. */
export function rank(options: {
  versionNum: number;
  sharesBlocks: boolean;
  bytes: number;
  files: number;
}): Estimate[] {
  const strategies: TemplateStrategy[] = ['copy'];
  if (options.versionNum >= 150000) strategies.push('wal_log');
  if (options.versionNum >= 180000 && options.sharesBlocks) strategies.push('clone');
  return strategies
    .map((strategy) => estimate(strategy, options))
    .sort((one, other) => one.milliseconds - other.milliseconds);
}

/**
 * Returns how long the statement may take, in milliseconds; 0 is no limit. If the target is in use, new connections wait no longer
 * than --limit stall. An attempt to clone files is always limited, since some file systems accept it and copy in full.
 */
export async function timeLimit(
  context: CloneContext,
  strategy: TemplateStrategy,
  present: readonly ActivitySession[],
): Promise<number> {
  const { maxStallMs } = context.options;
  const expected =
    rankHere(context, true).find((estimate) => estimate.strategy === strategy)?.milliseconds ?? 0;
  const busy = maxStallMs < NO_LIMIT_MS && (present.length > 0 || (await isVisited(context, expected)));
  refuseLongStall(context, expected, busy);
  // CREATE DATABASE itself waits up to 5 s for sessions to end, which is part of the statement's time.
  const cloneLimit = 5_000 + Math.max(5_000, expected * 8);
  if (strategy === 'clone') return busy ? Math.min(cloneLimit, maxStallMs) : cloneLimit;
  return busy ? maxStallMs : 0;
}

function refuseLongStall(context: CloneContext, expectedMs: number, busy: boolean): void {
  const { maxStallMs } = context.options;
  if (!busy || expectedMs <= maxStallMs) return;
  const { database } = context.target;
  throw new SafemigrateError(
    'STALL',
    `While ${database.name} (${formatBytes(database.sizeBytes)}) is copied, new connections to it wait: about ` +
      `${formatDuration(expectedMs)}, and --limit stall allows ${formatDuration(maxStallMs)}.`,
    {
      hint:
        'The target was not touched. Rehearse when it is not in use, allow it with --limit stall=DURATION, rehearse ' +
        'against a copy on another server, or use PostgreSQL 18 on a file system that clones files (XFS, btrfs, ZFS).',
    },
  );
}

/** The refusal after the time limit has ended a copy. */
export function stalled(context: CloneContext, limitMs: number): SafemigrateError {
  return new SafemigrateError(
    'STALL',
    `The copy took longer than ${formatDuration(limitMs)} and was ended, so that new connections to ` +
      `${context.target.database.name} would not wait longer.`,
    {
      sqlstate: '57014',
      hint: 'The target was not changed. Allow it with --limit stall=DURATION, or rehearse when it is not in use.',
    },
  );
}

/**
 * Finds out if short sessions come and go: no session was connected a moment ago, but the statement takes so long that a client that
 * connects during it would notice. So the server is asked several times who is connected now.
 */
async function isVisited({ control, target, signal }: CloneContext, expectedMs: number): Promise<boolean> {
  if (expectedMs < NOTICED_MS) return false;
  for (let look = 0; look < LOOKS; look++) {
    if ((await clientSessions(control, target.database.oid)).length > 0) return true;
    // At uneven intervals: a client that comes as often as we look could be missed each time.
    await pauseBetweenTries(2 * LOOK_EVERY_MS * Math.random(), signal);
  }
  return false;
}

const LOOKS = 20;
/** On average. */
const LOOK_EVERY_MS = 25;
const NOTICED_MS = 1_000;
/** The longest statement_timeout. */
export const NO_LIMIT_MS = 2 ** 31 - 1;
