import { formatBytes, formatCount, plural } from '../../format.ts';
import type { Report } from '../../model/report.ts';
import { convertedWords, cutWords, losingChanges } from '../phrases.ts';
import { visible } from '../visible.ts';
import { block, code, prose } from './escape-markdown.ts';
import { PART, type Part } from './markdown-part.ts';

export function lossPart({ data }: Report): Part | undefined {
  const lost = data?.lost ?? [];
  const converted = (data?.converted ?? []).map((each) => `- ${prose(convertedWords(each))}`);
  return {
    ...PART,
    title: `Lost data: ${plural(lost.length + converted.length, 'object')}`,
    folded: false,
    importance: 9,
    items: [
      ...lost.map((each) => {
        const { object, kind, what, rows, rowsWithValue, exact } = each;
        const how = what === 'narrowed' ? `${what}, ${cutWords(each)}` : what;
        const count =
          rowsWithValue === null
            ? 'the amount of data is unknown'
            : `${formatCount(rowsWithValue)} of ${formatCount(rows ?? 0)} rows`;
        return `- ${kind} ${code(object)} ${how}: ${exact || rowsWithValue === null ? '' : 'about '}${count}`;
      }),
      ...converted,
    ],
  };
}

export function schemaPart(report: Report): Part | undefined {
  const { schema } = report;
  if (!schema) return undefined;
  const signs = {
    create: '+',
    grant: '+',
    drop: '-',
    revoke: '-',
    alter: '!',
    rename: '!',
    comment: '!',
  } as const;
  const { possible } = losingChanges(report);
  const changes = schema.changes.toSorted((one, other) => Number(other.dataLoss) - Number(one.dataLoss));
  const lines = [
    ...changes.map((change) => {
      const { verb, kind, object, dataLoss } = change;
      const loss = dataLoss ? `   ${possible.includes(change) ? 'MAY LOSE' : 'LOSES'} DATA` : '';
      return `${signs[verb]} ${verb} ${kind} ${object}${loss}`;
    }),
    ...schema.renames.map(({ kind, from, to }) => `! rename ${kind} ${from} -> ${to}`),
  ];
  return { ...fencedLines(lines), title: `Schema: ${plural(changes.length, 'change')}`, importance: 6 };
}

/** Lines in a block of code; each is an item, so that lines can be left out. */
function fencedLines(lines: readonly string[]): Pick<Part, 'folded' | 'head' | 'items' | 'foot'> {
  const [head = '', body = '', foot = ''] = block('diff', lines.map(visible).join('\n'));
  return { folded: true, head: [head], items: lines.length === 0 ? [] : body.split('\n'), foot: [foot] };
}

export function dataPart({ data }: Report): Part | undefined {
  if (!data) return undefined;
  const size = (bytes: number | null) => (bytes === null ? '–' : formatBytes(bytes));
  const rows = (count: number | null, exact: boolean) =>
    count === null ? '–' : `${exact ? '' : '~'}${formatCount(count)}`;
  return {
    ...PART,
    title: `Data: ${plural(data.tables.length, 'table')} changed${data.walBytes === null ? '' : `, ${formatBytes(data.walBytes)} WAL`}`,
    importance: 5,
    head: ['| table | rows | size | |', '|---|---|---|---|'],
    items: data.tables.map(
      ({ relation, rowsBefore, rowsAfter, exact, bytesBefore, bytesAfter, rewritten }) =>
        `| ${code(relation)} | ${rows(rowsBefore, exact)} → ${rows(rowsAfter, exact)} | ` +
        `${size(bytesBefore)} → ${size(bytesAfter)} | ${rewritten ? 'rewritten' : ''} |`,
    ),
  };
}

export function rollbackPart({ schema }: Report): Part | undefined {
  if (!schema?.rollbackSql) return undefined;
  const [head = '', body = '', foot = ''] = block('sql', schema.rollbackSql.trimEnd());
  const losses = schema.rollbackLoses.map((loss) => `- ${prose(loss)}`);
  return {
    title: 'Rollback SQL',
    folded: true,
    importance: 3,
    head: losses.length > 0 ? ['It does not restore:', ...losses, '', head] : [head],
    items: body.split('\n'),
    foot: [foot],
  };
}
