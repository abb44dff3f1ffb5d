import type { CutOffOutcome } from '../apply/cut-off.ts';
import { formatDuration, plural } from '../format.ts';
import { visible } from '../report/visible.ts';

const LISTED = 5;
const COLUMNS = 100;

/** Applies that were killed, and what their targets have. */
export function cutOffText(applies: readonly CutOffOutcome[]): string {
  if (applies.length === 0) return '';
  return `Applies:\n${applies.map(one).join('')}`;
}

function one({ head, state, schema, committed, open }: CutOffOutcome): string {
  const ago = formatDuration(Math.max(0, Date.now() - Date.parse(head.startedAt)));
  const { database, host, port } = head.target;
  const what = `${head.run} to ${database} on ${host}:${port}, begun ${ago} ago`;
  if (schema === null) return `  ${what}: at work\n`;
  const doubt = state === 'unknown' ? ' (or is at work where this machine cannot look)' : '';
  return [
    `  ${what}: was cut off${doubt}. A person must look.\n`,
    `    ${stateOf(schema)}\n`,
    ...texts('committed', committed),
    ...texts('not over when it was cut off: rolled back, or committed by its last statement', open),
  ].join('');
}

function stateOf(schema: NonNullable<CutOffOutcome['schema']>): string {
  switch (schema) {
    case 'as before':
      return 'The schema is as it was before the command.';
    case 'as rehearsed':
      return 'The schema is the one that the rehearsal led to.';
    case 'otherwise':
      return 'The schema is neither the one before the command nor the one that the rehearsal led to.';
    default:
      return `The schema was not looked at: ${schema.unread}.`;
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
