import path from 'node:path';
import { literal } from '../../postgres/sql/quote.ts';
import type { CloneContext } from '../method.ts';
import { backupStatements, slotName } from './backup.ts';
import { hurriesCheckpoint } from './fill.ts';
import { snapshotCommands } from './snapshot.ts';
import type { Survey } from './survey.ts';

/** The folder that holds everything of the clone. */
export function clusterFolder({ run }: CloneContext, { place }: Survey): string {
  return path.join(place.parent, `safemigrate_${run}`);
}

/** Describes the steps for --plan: statements as they are sent, file operations as SQL comments. */
export function describeCluster(context: CloneContext, survey: Survey): string[] {
  const folder = clusterFolder(context, survey);
  const made = [`-- make the folder ${folder}`];
  const started = [
    `-- start a second server on ${folder}/data, without TCP, as the user of the original; end it and remove the folder after the run`,
  ];
  return [
    ...made,
    ...(survey.snapshots ? bySnapshot(context, survey, folder) : byBackup(context, survey, folder)),
    ...started,
  ];
}

function bySnapshot(context: CloneContext, { snapshots, ...survey }: Survey, folder: string): string[] {
  if (!snapshots) return [];
  const { take, release } = snapshotCommands(snapshots, context.run, folder);
  const taken = take.map((words) => `-- ${words.join(' ')}`);
  const { start, stop } = backupLines(context, survey);
  return [
    ...(snapshots.atomic ? (hurriesCheckpoint(context, survey) ? ['CHECKPOINT'] : []) : start),
    ...taken,
    ...(snapshots.atomic
      ? []
      : [...stop, `-- share or copy the WAL of the backup, from ${survey.layout.wal}`]),
    `-- after the run: ${release}`,
  ];
}

function backupLines(
  context: CloneContext,
  { server }: Pick<Survey, 'server'>,
): Record<'start' | 'stop', string[]> {
  const { start, stop } = backupStatements(server);
  const slot = `SELECT lsn::text FROM pg_create_physical_replication_slot(${literal(slotName(context))}, true, true)`;
  const label = start
    .replace('$1', literal(`safemigrate ${context.run}`))
    .replace('$2', String(context.options.checkpoint === 'fast'));
  return { start: [label, ...(server.mayReserve ? [slot] : [])], stop: [stop] };
}

function byBackup(context: CloneContext, survey: Survey, folder: string): string[] {
  const { layout, strategy, files } = survey;
  const { start, stop } = backupLines(context, survey);
  const copied = strategy === 'reflink' ? 'share the blocks of' : 'copy';
  return [
    ...start,
    `-- ${copied} ${files} files of ${layout.data}, but for WAL, logs and what belongs to the running server`,
    ...layout.tablespaces.map(
      ({ oid, folder: from }) => `-- ${copied} the tablespace ${from}, as ${folder}/tablespaces/${oid}`,
    ),
    ...stop,
    `-- ${copied} the WAL from the start of the backup to its end, from ${layout.wal}`,
  ];
}
