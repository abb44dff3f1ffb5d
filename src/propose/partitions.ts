import type * as Tree from 'libpg-query';
import type { AlterCommand } from '../postgres/sql/alter-commands.ts';
import { identifier } from '../postgres/sql/quote.ts';
import { notValidSteps } from '../postgres/sql/safer-constraints.ts';
import { isWord, slice, type Token } from '../postgres/sql/tokens.ts';
import { type AlterTable, left, type Rewriting, step, waiting, writtenName } from './subject.ts';

const ONE_COLUMN = 'only bounds of one column can be proved by a CHECK';

/** ATTACH PARTITION, after a validated CHECK has proved that the rows fit, so that nothing is read under the lock. */
export function attach({ subject, table, written }: AlterTable, command: AlterCommand): Rewriting {
  const { name: partition, bound } = partitionOf(command);
  const columns = subject.before(table)?.partitionedBy;
  const [column] = columns ?? [];
  if (column === undefined || columns?.length !== 1 || !bound || bound.is_default) return left(ONE_COLUMN);
  const conditions = conditionsOf(command, bound, subject.sql, subject.tokens, identifier(column));
  if (!conditions) return left(ONE_COLUMN);
  const child = writtenName(subject, partition);
  const name = identifier(`${partition?.relname}_fits`);
  const check = [`${identifier(column)} IS NOT NULL`, ...conditions].join(' AND ');
  return [
    ...notValidSteps(child, name, `CHECK (${check})`).map(step),
    step(`ALTER TABLE ${written} ${command.text}`),
    step(`ALTER TABLE ${child} DROP CONSTRAINT ${name}`),
  ];
}

/** DETACH PARTITION … CONCURRENTLY. Before version 19 it leaves a CHECK with the bounds, which the plain form does not. */
export function detach({ subject, table, written }: AlterTable, command: AlterCommand): Rewriting {
  const { name: partition } = partitionOf(command);
  const columns = subject.before(table)?.partitionedBy;
  if (columns?.length !== 1) return left(ONE_COLUMN);
  const child = writtenName(subject, partition);
  const check = identifier(`${partition?.relname}_${columns[0]}_check`);
  return [
    waiting(`ALTER TABLE ${written} ${command.text} CONCURRENTLY`),
    step(`ALTER TABLE ${child} DROP CONSTRAINT IF EXISTS ${check}`),
  ];
}

function partitionOf({ fields: { def } }: AlterCommand): Tree.PartitionCmd {
  return def && 'PartitionCmd' in def ? def.PartitionCmd : {};
}

/** The bounds as conditions of one column; null if they are of several, or not those of a range or a list. */
function conditionsOf(
  { from, to }: AlterCommand,
  { strategy }: Tree.PartitionBoundSpec,
  sql: string,
  tokens: readonly Token[],
  column: string,
): string[] | null {
  const own = tokens.filter((token) => token.from >= from && token.to <= to);
  /** Returns the text in the parentheses behind a keyword. */
  const within = (keyword: string) => {
    const at = own.findIndex((token) => isWord(token, keyword));
    const end = own.findIndex((token, index) => index > at + 1 && isWord(token, ')'));
    return at < 0 || end < 0 ? '' : slice(sql, own[at + 1]?.to ?? 0, own[end]?.from);
  };
  if (strategy === 'l') return /\bnull\b/i.test(within('IN')) ? null : [`${column} IN (${within('IN')})`];
  if (strategy !== 'r') return null;
  const isOpen = (value: string) => /^(?:minvalue|maxvalue)$/i.test(value);
  const [low, high] = [within('FROM'), within('TO')];
  return [...(isOpen(low) ? [] : [`${column} >= ${low}`]), ...(isOpen(high) ? [] : [`${column} < ${high}`])];
}
