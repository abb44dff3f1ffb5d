import { preparedTransactions } from '../../database/activity.ts';
import { ownershipStatements } from '../../database/privileges.ts';
import { formatBytes, formatDuration } from '../../format.ts';
import { identifier } from '../../postgres/sql/quote.ts';
import type { Assessment, CloneContext } from '../method.ts';
import { type Estimate, rank, type TemplateStrategy } from './estimate-template.ts';
import { type FileSystems, inspectFileSystems } from './filesystem.ts';
import { clientSessions } from './sessions.ts';

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
