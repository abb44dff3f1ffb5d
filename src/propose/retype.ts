import type { ColumnBefore, DefinedBefore } from '../observe/tables-before.ts';
import type { AlterCommand } from '../postgres/sql/alter-commands.ts';
import { displayName, identifier, withoutLastPart } from '../postgres/sql/quote.ts';
import { notNullSteps, notValidSteps } from '../postgres/sql/safer-constraints.ts';
import { isWord, slice, type Token } from '../postgres/sql/tokens.ts';
import { batches } from './batches.ts';
import { type AlterTable, left, type Rewriting, type ScriptStep, step, waiting } from './subject.ts';

const SUFFIX = '_retyped';
const LONGEST_NAME = 63;

/**
 * ALTER COLUMN … TYPE, which rewrites the table: a column of the new type that a trigger keeps equal, filled in batches, then takes the
 * place of the old one. It is the last column of its table then.
 */
export function retype({ subject, table, written }: AlterTable, command: AlterCommand): Rewriting {
  const { name: column = '' } = command.fields;
  const relation = subject.relation(table);
  const [known, before] = [subject.columnBefore(table, column), subject.before(table)];
  if (!known || before?.kind !== 'table') return left('nothing is known of the column before the command');
  if (before.key === null) return left('its table has no key to fill a new column by');
  if (known.others.length > 0)
    return left(`more depends on the column than indexes and CHECKs: ${known.others.join(', ')}`);
  const base = table?.relname ?? '';
  const [next, made] = [`${column}${SUFFIX}`, `${base}_${column}${SUFFIX}`];
  if (Buffer.byteLength(`${made}_not_null`) > LONGEST_NAME)
    return left('names made from its own would be too long');
  const indexes = known.indexes.map((index) => otherIndex(index, column, next));
  const checks = known.checks.map((check) => otherCheck(check, column, next));
  if ([...indexes, ...checks].some(({ name }) => Buffer.byteLength(name) > LONGEST_NAME))
    return left('names made from those of its indexes and constraints would be too long');
  const { type, value } = conversionOf(command, subject.sql, subject.tokens, column);
  const [trigger, fn] = [displayName(made), displayName(`${made}_fill`)];
  const place = `${withoutLastPart(relation)}.`;
  return [
    step(`ALTER TABLE ${written} ADD COLUMN ${identifier(next)} ${type}`),
    step(`CREATE FUNCTION ${place}${fn}() RETURNS trigger LANGUAGE plpgsql AS $safemigrate$
#variable_conflict use_column
BEGIN
  NEW.${identifier(next)} := (SELECT ${value} FROM (SELECT (NEW).*) AS ${identifier(base)});
  RETURN NEW;
END $safemigrate$`),
    step(
      `CREATE TRIGGER ${trigger} BEFORE INSERT OR UPDATE ON ${written} FOR EACH ROW EXECUTE FUNCTION ${place}${fn}()`,
    ),
    ...batches(
      written,
      before.key,
      (range) =>
        `UPDATE ${written} AS ${identifier(base)} SET ${identifier(next)} = ${value}\n    WHERE ${range(identifier(base))}`,
    ),
    ...indexes.map(({ sql }) => waiting(sql)),
    ...checks.flatMap(({ name, sql }) => notValidSteps(written, identifier(name), sql).map(step)),
    ...(known.isNotNull ? notNullSteps(written, identifier(next), base).map(step) : []),
    swap(known, { written, column, next, base, indexes, checks, trigger, fn: `${place}${fn}` }),
  ];
}

interface Swapped {
  readonly written: string;
  readonly column: string;
  readonly next: string;
  readonly base: string;
  readonly indexes: readonly Other[];
  readonly checks: readonly Other[];
  readonly trigger: string;
  readonly fn: string;
}

/** One statement, so that no session sees the table without the column. */
function swap(
  { default: value, notNullName }: ColumnBefore,
  { written, column, next, base, indexes, checks, trigger, fn }: Swapped,
): ScriptStep {
  const [old, name] = [identifier(column), identifier(next)];
  const statements = [
    `DROP TRIGGER ${trigger} ON ${written}`,
    `DROP FUNCTION ${fn}()`,
    `ALTER TABLE ${written} DROP COLUMN ${old}`,
    `ALTER TABLE ${written} RENAME COLUMN ${name} TO ${old}`,
    ...(value === null ? [] : [`ALTER TABLE ${written} ALTER COLUMN ${old} SET DEFAULT ${value}`]),
    ...(notNullName === null
      ? []
      : [
          `ALTER TABLE ${written} RENAME CONSTRAINT ${identifier(`${base}_${next}_not_null`)} TO ${identifier(notNullName)}`,
        ]),
    ...checks.map(
      ({ name: made, former }) =>
        `ALTER TABLE ${written} RENAME CONSTRAINT ${identifier(made)} TO ${identifier(former)}`,
    ),
    ...indexes.map(
      (index) =>
        `ALTER INDEX ${identifier(index.schema)}.${identifier(index.name)} RENAME TO ${identifier(index.former)}`,
    ),
  ];
  return step(`DO $safemigrate$
BEGIN
${statements.map((sql) => `  ${sql};\n`).join('')}END $safemigrate$`);
}

/** The new type as it is written, with its collation, and the expression for a value of it. */
function conversionOf({ from, to }: AlterCommand, sql: string, tokens: readonly Token[], column: string) {
  const own = tokens.filter((token) => token.from >= from && token.to <= to);
  const at = (word: string) => own.find((token) => isWord(token, word));
  const [start, using, collation] = [at('TYPE'), at('USING'), at('COLLATE')];
  const type = slice(sql, start?.to ?? from, using?.from ?? to);
  const plain = slice(sql, start?.to ?? from, (collation ?? using)?.from ?? to);
  return { type, value: using ? `(${slice(sql, using.to, to)})` : `${identifier(column)}::${plain}` };
}

/** Index or CHECK that the new column gets in place of one of the old column. */
type Other = ReturnType<typeof otherIndex>;

/** The same index of the new column, under another name. */
function otherIndex({ schema, name: former, tokens }: DefinedBefore, column: string, next: string) {
  const name = `${former}${SUFFIX}`;
  const at = tokens.findIndex((token) => isWord(token, 'INDEX')) + 1;
  const rest = tokens.findIndex((token) => isWord(token, 'USING'));
  const head = tokens
    .slice(0, rest)
    .map(({ text }, index) => (index === at ? `CONCURRENTLY ${identifier(name)}` : text));
  return { schema, former, name, sql: [...head, ...renamed(tokens.slice(rest), column, next)].join(' ') };
}

function otherCheck({ schema, name: former, tokens }: DefinedBefore, column: string, next: string): Other {
  return { schema, former, name: `${former}${SUFFIX}`, sql: renamed(tokens, column, next).join(' ') };
}

/** The name of a type may be that of a column. */
function renamed(tokens: readonly Token[], column: string, next: string): string[] {
  return tokens.map(({ text }, index) => {
    const isColumn = [column, identifier(column)].includes(text);
    return isColumn && tokens[index - 1]?.text !== '::' ? identifier(next) : text;
  });
}
