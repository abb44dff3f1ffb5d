import type { InspectedApply } from '../../apply/journal.ts';
import { formatDuration, formatTime, plural } from '../../format.ts';
import { visible } from '../../report/visible.ts';

const LISTED = 5;
const COLUMNS = 100;

/** Describes the applies that are running or were killed, and what their targets have. */
export function interruptedAppliesText(applies: readonly InspectedApply[]): string {
  if (applies.length === 0) return '';
  return `Applies:\n${applies.map(one).join('')}`;
}

function one({ head, state, pausedSince, schema, committed, open }: InspectedApply): string {
  const ago = formatDuration(Math.max(0, Date.now() - Date.parse(head.startedAt)));
  const { database, host, port } = head.target;
  const what = `${head.run} to ${database} on ${host}:${port}, started ${ago} ago`;
  if (schema === null)
    return `  ${what}: ${pausedSince === null ? 'running' : pausedWords(head.run, pausedSince)}\n`;
  const doubt = state === 'unknown' ? ' (or is running where this machine cannot check)' : '';
  return [
    `  ${what}: was killed${doubt}. A person must check the target.\n`,
    `    ${stateOf(schema)}\n`,
    ...texts('committed', committed),
    ...texts('in transactions that had not ended: rolled back, or committed by the last one', open),
  ].join('');
}

function pausedWords(run: string, since: string): string {
  return (
    `paused since ${formatTime(since)}: \`safemigrate resume ${run}\` lets it continue, ` +
    `\`safemigrate abort ${run}\` ends it`
  );
}

function stateOf(schema: NonNullable<InspectedApply['schema']>): string {
  switch (schema) {
    case 'as before':
      return 'The schema is as it was before the command.';
    case 'as rehearsed':
      return 'The schema is the result of the rehearsal.';
    case 'otherwise':
      return 'The schema is neither the one before the command nor the result of the rehearsal.';
    default:
      return `The schema was not read: ${schema.unread}.`;
  }
}

function texts(title: string, list: readonly string[]): string[] {
  if (list.length === 0) return [];
  const more = list.length > LISTED ? [`      and ${list.length - LISTED} before them\n`] : [];
  return [
    `    ${plural(list.length, 'statement')} ${title}:\n`,
    ...more,
    ...list.slice(-LISTED).map((sql) => `      ${visible(sql.replace(/\s+/g, ' ')).slice(0, COLUMNS)}\n`),
  ];
}
