import { tmpdir } from 'node:os';
import { SafemigrateError } from '../../errors.ts';
import { formatBytes, formatDuration, plural } from '../../format.ts';
import { type ClientPrograms, findClientPrograms } from '../../local-server/client-programs.ts';
import { whyUnusable } from '../../ownership/state-files.ts';
import { identifier } from '../../postgres/sql/quote.ts';
import type { Assessment, CloneContext, Possible } from '../method.ts';
import { refuseOnSharedServer } from '../obstacle.ts';
import { type DestinationKind, destinationKind, majorOf, requireOwnServer } from './destination.ts';
import { unreadableTables } from './dump-facts.ts';

/** Fixed costs: starting the programs, reading the catalogs, re-creating each relation. */
const FIXED_MS = 700;
/** Measured: 9.9 s for 10,300 relations, half of them tables, on a busy server. */
const PER_RELATION_MS = 1;
const OWN_SERVER_MS = 1_500;
/** Measured on 2 cores: 450 MB with indexes in 7 s. */
const BYTES_PER_MS = 60_000;

/** From this version on programs send `SET transaction_timeout`, which servers before it refuse. */
const TRANSACTION_TIMEOUT_SINCE = 17;

const WHERE: Record<DestinationKind, string> = {
  'same-server': "the target's own server",
  'rehearsal-server': 'the server of --clone-to',
  'embedded-server': 'a server of its own on this machine',
};

const CONTAINMENT: Record<DestinationKind, Possible['containment']> = {
  'same-server': 'target-server',
  'rehearsal-server': 'other-server',
  'embedded-server': 'own-server',
};

export async function assessDump(context: CloneContext): Promise<Assessment> {
  const kind = destinationKind(context);
  const obstacle = await obstacleTo(context, kind);
  if (obstacle) return { possible: false, ...obstacle };
  if (kind !== 'rehearsal-server') {
    const refused = refuseOnSharedServer(context, `on ${WHERE[kind]}`);
    if (refused) return refused;
  }
  const programs = await clientPrograms(context, kind);
  if ('reason' in programs) return { possible: false, ...programs };
  const { sizeBytes, relations } = context.target.database;
  const { schemaOnly } = context.options;
  const readyMs = estimateDumpMs(context);
  const what = schemaOnly ? 'tables without rows' : formatBytes(sizeBytes);
  return {
    possible: true,
    strategy: kind,
    readyMs,
    stallMs: 0,
    bytes: schemaOnly ? 0 : sizeBytes,
    endsSessions: false,
    isolation: kind === 'embedded-server' ? 'own-cluster' : 'same-cluster',
    containment: CONTAINMENT[kind],
    reason:
      `dumped by pg_dump ${programs.version} and restored on ${WHERE[kind]}: estimated ${formatDuration(readyMs)} for ` +
      `${what} in ${plural(relations, 'relation')}`,
  };
}

/** Estimates the milliseconds until the clone can be used. */
function estimateDumpMs(context: CloneContext): number {
  const { sizeBytes, relations } = context.target.database;
  const bytes = context.options.schemaOnly ? 0 : sizeBytes;
  const serverMs = destinationKind(context) === 'embedded-server' ? OWN_SERVER_MS : 0;
  return Math.round(FIXED_MS + serverMs + relations * PER_RELATION_MS + bytes / BYTES_PER_MS);
}

/** The folder for dumps and logs. */
export function workFolder({ options }: CloneContext): string {
  return options.folder ?? tmpdir();
}

/** Picks programs that are not older than the dumped server, and whose output the other server accepts. */
export function clientPrograms(
  { target, rehearsal }: CloneContext,
  kind: DestinationKind,
): Promise<ClientPrograms | { reason: string; enable: string }> {
  const there = majorOf(kind === 'rehearsal-server' && rehearsal ? rehearsal.target : target);
  const atLeast = majorOf(target);
  return findClientPrograms({
    programs: ['pg_dump', 'pg_restore'],
    atLeast,
    ...(there < TRANSACTION_TIMEOUT_SINCE
      ? { atMost: Math.max(atLeast, TRANSACTION_TIMEOUT_SINCE - 1) }
      : {}),
  });
}

async function obstacleTo(
  context: CloneContext,
  kind: DestinationKind,
): Promise<{ reason: string; enable?: string } | undefined> {
  const { target, rehearsal } = context;
  if (kind === 'rehearsal-server' && rehearsal) {
    const { role } = rehearsal.target;
    if (!role.superuser && !role.createdb)
      return {
        reason: `the role ${role.name} may not create databases on ${WHERE[kind]}`,
        enable: `ALTER ROLE ${identifier(role.name)} CREATEDB; there`,
      };
  }
  if (kind === 'embedded-server') {
    if (context.options.keep)
      return {
        reason: `the role ${target.role.name} may not create databases, and a server of our own ends with the run`,
        enable: `ALTER ROLE ${identifier(target.role.name)} CREATEDB; or leave out --keep`,
      };
    try {
      await requireOwnServer(context);
    } catch (error) {
      if (!(error instanceof SafemigrateError)) throw error;
      return {
        reason: `the role ${target.role.name} may not create databases, and ${error.message}`,
        enable: `ALTER ROLE ${identifier(target.role.name)} CREATEDB; or --clone-to; or: ${error.hint}`,
      };
    }
  }
  const folders = kind === 'embedded-server' ? [workFolder(context), tmpdir()] : [workFolder(context)];
  for (const folder of new Set(folders)) {
    const why = await whyUnusable(folder);
    if (why !== undefined)
      return {
        reason: `the folder for temporary files cannot be used: ${why}`,
        enable: 'set TMPDIR to a folder of yours, or name one with --clone-dir',
      };
  }
  const unreadable = await unreadableTables(context);
  if (unreadable.length === 0) return undefined;
  const [first = '', ...more] = unreadable;
  const name = identifier(target.role.name);
  return {
    reason: `the role ${target.role.name} may not read all of ${first}${more.length > 0 ? ' and other tables' : ''}`,
    enable: `GRANT pg_read_all_data TO ${name}; if tables have row-level security: ALTER ROLE ${name} BYPASSRLS;`,
  };
}
