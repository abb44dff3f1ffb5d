import { measured } from '../measured.ts';
import { isReplaced } from '../model/converted-column.ts';
import type { Caveat, ConvertedColumn, DataSection, SchemaSection } from '../model/report.ts';
import type { Session } from '../postgres/connection/session.ts';
import { ifAnswered } from '../postgres/session-helpers.ts';
import { withoutLastPart } from '../postgres/sql/quote.ts';
import { mayChangeValues, type Retyped, thereAndBack, withoutLossOf } from '../schema/type-changes.ts';
import { type BothSides, onBothSides, withReader } from './both-sides.ts';
import { contentOf } from './column-contents.ts';
import { compareConverted, isAsBefore, uncompared } from './converted-values.ts';
import { copiedAmong, tablesCopied, withCopies, withoutEmptyLoss } from './copied-data.ts';
import {
  type ColumnContent,
  type ConversionWork,
  conversionOf,
  convertedTables,
  lostData,
  zoneOfConversions,
} from './lost-data.ts';
import { compareUpdated, updatedTables } from './overwritten-values.ts';
import { namedParts } from './row-values.ts';
import { namedInUpdates } from './unnamed-columns.ts';

export interface LossInput extends ConversionWork {
  readonly schema: SchemaSection | null;
  readonly data: DataSection | null;
  readonly retyped: readonly Retyped[];
  /** Tables that are empty here and need not be so in production. */
  readonly unfilled?: ReadonlySet<string>;
  /** How the command began its sessions; missing: not known. */
  readonly sessions?: Parameters<typeof zoneOfConversions>[1];
}

export interface DataLoss {
  /** The observed changes, without the losses of changes of type that lose nothing. */
  readonly schema: SchemaSection | null;
  /** The observed data, and what of it is lost. */
  readonly data: DataSection | null;
  /** Sizes with indexes and TOAST of what the command rewrote; null if they could not be read. */
  readonly rewrittenBytes: ReadonlyMap<string, number> | null;
  /** Work done on the target beyond reading catalogues, in words for the report. */
  readonly touched: string[];
  readonly caveats: Caveat[];
}

const IN_ZONE = "SELECT set_config('TimeZone', $1, false)";

const SIZES = `
SELECT w.object, pg_total_relation_size(c.oid)::float8 AS bytes
  FROM unnest($1::text[], $2::text[], $3::text[]) AS w(object, schema, name)
  JOIN pg_namespace n ON n.nspname = w.schema
  JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name`;

/**
 * Looks up on the target, which still has them, how much the columns hold that the command dropped or cut on the clone,
 * how many of their values would not survive it, and how large the tables are that it rewrote. Catalogue reads, and a
 * count of small tables that gives up early.
 */
export async function measureDataLoss(options: BothSides, observed: LossInput): Promise<DataLoss> {
  const { data, retyped, unfilled = new Set() } = observed;
  const caveats: Caveat[] = [];
  const touched: string[] = [];
  const converted = await convertedAmong(options, observed, touched, caveats);
  const overwritten = await overwrittenAmong(options, observed, touched, caveats);
  const replaced = new Set(converted.filter((column) => !isAsBefore(column)).map(({ object }) => object));
  const conversions = new Map(retyped.map((column) => [column, conversionOf(column, observed)]));
  const harmless = retyped.filter(
    (column) =>
      !replaced.has(column.object) &&
      (converted.some(({ object }) => object === column.object) ||
        !mayChangeValues(column, conversions.get(column) ?? 'expression')),
  );
  const suspected = observed.schema && withoutLossOf(observed.schema, harmless);
  const columns = (suspected?.changes ?? []).filter(
    ({ kind, verb, dataLoss }) => dataLoss && kind === 'column' && (verb === 'drop' || verb === 'alter'),
  );
  const casts = new Map(
    retyped.flatMap((column) => {
      const { object, from, to } = column;
      const cast = conversions.get(column) === 'expression' ? null : thereAndBack(from, to);
      return cast === null ? [] : [[object, cast] as const];
    }),
  );
  const rewritten = (data?.tables ?? []).filter((table) => table.rewritten).map(({ relation }) => relation);
  const weighed =
    columns.length === 0 && rewritten.length === 0
      ? NOTHING
      : await measured(caveats, 'data.lost', () =>
          withReader(options, options.target.settings, async (session) => {
            const zone = zoneOfConversions(observed, observed.sessions ?? new Map());
            if (zone !== null) await ifAnswered(() => session.query(IN_ZONE, [zone]));
            const objects = [...new Set(columns.map(({ object }) => object))];
            return {
              columns: await contentOf(session, objects, casts, touched),
              rewrittenBytes: await sizesOf(session, rewritten),
            };
          }),
        );
  const contents = weighed?.columns ?? new Map<string, ColumnContent>();
  if (weighed && columns.some(({ object }) => (contents.get(object)?.rowsWithValue ?? null) === null))
    caveats.push({
      path: 'data.lost',
      kind: 'unmeasured',
      reason:
        'columns of tables that are too large to count and were never analysed have no number of values',
    });
  const untouched = retyped.filter(
    ({ object }) => isUntouched(contents.get(object)) && !unfilled.has(withoutLastPart(object)),
  );
  const schema = suspected && withoutLossOf(suspected, untouched);
  const all = data && lostData({ schema, data, columns: contents, unfilled });
  const copied = await copiedAmong(options, all ?? [], touched, caveats);
  const tables = await tablesCopied(options, all ?? [], touched, caveats);
  const isCopied = (table: string) => tables.some(({ relation }) => relation === table);
  const compared = new Set(converted.flatMap((each) => (each.compared > 0 ? [each.object] : [])));
  const kept = all?.filter(({ kind, what, object }) =>
    kind === 'table' && what === 'dropped'
      ? !isCopied(object)
      : kind !== 'column' || (!copied.includes(object) && !(what === 'narrowed' && compared.has(object))),
  );
  const lost = kept && (await withCopies(options, kept, schema, caveats));
  const listed = converted.filter(
    (column) =>
      replaced.has(column.object) &&
      !lost?.some(({ object, what }) => what === 'narrowed' && object === column.object),
  );
  return {
    schema: schema && withConverted(withoutEmptyLoss(schema, all ?? [], copied, tables), converted, retyped),
    data:
      data && lost
        ? {
            ...data,
            lost,
            ...optional('converted', listed),
            ...optional('overwritten', overwritten),
            ...optional('copied', copied),
            ...optional('copiedTables', tables),
          }
        : data,
    rewrittenBytes: weighed?.rewrittenBytes ?? null,
    touched,
    caveats,
  };
}

function optional<Key extends string, Item>(key: Key, items: readonly Item[]): { [K in Key]?: Item[] } {
  return items.length === 0 ? {} : ({ [key]: [...items] } as { [K in Key]?: Item[] });
}

/** Columns whose values a change of type may have replaced, compared on both sides; nothing if they could not be looked at. */
async function convertedAmong(
  options: BothSides,
  { data, schema, statements, parsed }: LossInput,
  touched: string[],
  caveats: Caveat[],
): Promise<ConvertedColumn[]> {
  const tables = data === null ? [] : convertedTables(data, { statements, parsed });
  if (tables.length === 0) return [];
  const compare = () =>
    onBothSides(options, (target, clone) =>
      compareConverted(target, clone, tables, schema, { touched, since: options.since }),
    );
  return (
    (await measured(caveats, 'data.lost', compare)) ??
    tables.flatMap(({ relation, columns }) => uncompared(relation, columns))
  );
}

/** Columns whose values an UPDATE replaced, as far as they could be compared. */
async function overwrittenAmong(
  options: BothSides,
  { data, schema, statements, parsed }: LossInput,
  touched: string[],
  caveats: Caveat[],
): Promise<ConvertedColumn[]> {
  const tables = data === null ? [] : updatedTables(data, schema);
  if (tables.length === 0) return [];
  const named = await namedInUpdates({ statements, parsed });
  const compare = () =>
    onBothSides(options, (target, clone) =>
      compareUpdated(tables, { target, clone, since: options.since, named, schema, touched, caveats }),
    );
  return (await measured(caveats, 'data.overwritten', compare)) ?? [];
}

/** The way back restores no values, also of a column that has the type that it had. */
function withConverted(
  schema: SchemaSection,
  converted: readonly ConvertedColumn[],
  retyped: readonly Retyped[],
): SchemaSection {
  const lost = converted.filter(
    (column) => isReplaced(column) && !retyped.some(({ object }) => object === column.object),
  );
  const words = lost.map(({ object }) => `the values of ${object} as they were before a USING expression`);
  const objects = new Set(converted.filter(isReplaced).map(({ object }) => object));
  return {
    ...schema,
    changes: schema.changes.map((change) =>
      change.verb === 'alter' &&
      change.kind === 'column' &&
      objects.has(change.object) &&
      / TYPE /.test(change.sql)
        ? { ...change, dataLoss: true }
        : change,
    ),
    rollbackLoses: [...schema.rollbackLoses, ...words],
  };
}

function isUntouched(content: ColumnContent | undefined): boolean {
  return content?.exact === true && (content.rowsChanged ?? content.rowsWithValue) === 0;
}

const NOTHING = { columns: new Map<string, ColumnContent>(), rewrittenBytes: new Map<string, number>() };

async function sizesOf(session: Session, wanted: readonly string[]): Promise<Map<string, number>> {
  if (wanted.length === 0) return new Map();
  const rows = await session.query<{ object: string; bytes: number }>(SIZES, namedParts(wanted).slice(0, 3));
  return new Map(rows.map(({ object, bytes }) => [object, bytes]));
}
