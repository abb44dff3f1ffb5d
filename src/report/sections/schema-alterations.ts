import type { SchemaChange, SchemaSection } from '../../model/report.ts';
import { enumValues } from '../../postgres/sql/enum-values.ts';
import { literal } from '../../postgres/sql/quote.ts';

const ALTERED = /^ALTER TABLE .+? ALTER COLUMN (?:"(?:[^"]|"")+"|[^\s"]+) (.+)$/s;

/** `NOT NULL`, `TYPE bigint, DEFAULT 0`: the new properties of a column; the values that an enum type gets and loses; else empty. */
export function alterationOf(schema: SchemaSection, { verb, kind, object, sql }: SchemaChange): string {
  if (verb !== 'alter') return '';
  if (kind === 'type') return changedValues(schema, object);
  const actions = sql.split(';\n').flatMap((statement) => ALTERED.exec(statement)?.[1] ?? []);
  const hasDefault = actions.some((action) => action.startsWith('SET DEFAULT'));
  return actions
    .filter((action) => action !== 'DROP DEFAULT' || !hasDefault)
    .map((action) =>
      action
        .replace(/^SET (?=NOT NULL|DEFAULT)/, '')
        .replace(/^(TYPE .+) USING ("(?:[^"]|"")+"|\w+)::.+$/, '$1')
        .replace(/^DROP NOT NULL$/, 'NULL')
        .replace(/^DROP /, 'no '),
    )
    .join(', ');
}

function changedValues({ objects = [] }: SchemaSection, type: string): string {
  const changed = objects.find(({ kind, object }) => kind === 'type' && object === type);
  const [before, after] = [enumValues(changed?.before ?? null), enumValues(changed?.after ?? null)];
  const only = (sign: string, values: readonly string[], others: readonly string[]) =>
    values.filter((value) => !others.includes(value)).map((value) => `${sign} ${literal(value)}`);
  return [...only('-', before, after), ...only('+', after, before)].join(', ');
}
