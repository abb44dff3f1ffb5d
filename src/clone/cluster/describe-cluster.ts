import path from 'node:path';
import { literal } from '../../postgres/sql/quote.ts';
import type { CloneContext } from '../method.ts';
import { backupStatements, slotName } from './backup.ts';
import { hurriesCheckpoint } from './fill.ts';
import { zfsCommands } from './snapshot.ts';
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
    ...(isSnapshot(survey) ? bySnapshot(context, survey, folder) : byBackup(context, survey, folder)),
    ...started,
  ];
}

function isSnapshot({ strategy }: Survey): boolean {
  return strategy === 'btrfs snapshot' || strategy === 'zfs snapshot';
}

function bySnapshot(context: CloneContext, survey: Survey, folder: string): string[] {
  const { layout, dataset } = survey;
  const data = `${folder}/data`;
  const zfs = dataset && zfsCommands(dataset, context.run, data);
  return [
    ...(hurriesCheckpoint(context, survey) ? ['CHECKPOINT'] : []),
    ...(zfs
      ? [
          `-- zfs ${zfs.snapshot.join(' ')}`,
          `-- zfs ${zfs.clone.join(' ')}`,
          `-- after the run: ${zfs.release}`,
        ]
      : [`-- btrfs subvolume snapshot ${layout.data} ${data}`]),
  ];
}

function byBackup(context: CloneContext, survey: Survey, folder: string): string[] {
  const { server, layout, strategy, files } = survey;
  const { start, stop } = backupStatements(server);
  const copied = strategy === 'reflink' ? 'share the blocks of' : 'copy';
  const label = start
    .replace('$1', literal(`safemigrate ${context.run}`))
    .replace('$2', String(context.options.checkpoint === 'fast'));
  return [
    ...(server.mayReserve
      ? [
          `SELECT slot_name FROM pg_create_physical_replication_slot(${literal(slotName(context))}, true, true)`,
        ]
      : []),
    label,
    `-- ${copied} ${files} files of ${layout.data}, but for WAL, logs and what belongs to the running server`,
    ...layout.tablespaces.map(
      ({ oid, folder: from }) => `-- ${copied} the tablespace ${from}, as ${folder}/tablespaces/${oid}`,
    ),
    stop,
    `-- ${copied} the WAL from the start of the backup to its end, from ${layout.wal}`,
  ];
}
