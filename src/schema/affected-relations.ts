import type { StableId } from '@supabase/pg-delta/core';
import { type Answer, type Answers, dependenciesOf, onlyOf, type Row } from './extraction.ts';
import { HUBS } from './reduce.ts';
import type { Touched } from './relation-versions.ts';

/**
 * What goes by one name within one schema, told together: a relation with its columns, constraints, indexes and the like;
 * a type; functions of a name. Or, where there is no schema, everything of a name.
 */
type Place = string;

// No identifier has a NUL in it.
const inSchema = (schema: unknown, name: unknown): Place => `${schema}\0${name}`;
const outside = (name: unknown): Place => `\0${name}`;
const HUB = '\0\0';
const hub = (name: unknown): Place => `${HUB}${name}`;

function placeOf({ kind, schema, table, name }: Named): Place {
  if (schema !== undefined) return inSchema(schema, table ?? name);
  return HUBS.has(kind) ? hub(name) : outside(name);
}

interface Named {
  readonly kind: string;
  readonly schema?: string;
  readonly table?: string;
  readonly name: string;
}

/**
 * Which relation the rows of an answer belong to, for the answers that grow with the number of relations; undefined for
 * all others, whose rows are always kept. pg-delta tells of each kind of object in columns of its own.
 */
function relationsIn({ columns }: Answer): ((row: Row) => Place) | undefined {
  const has = (...names: string[]) => names.every((name) => columns.includes(name));
  // Columns, constraints, indexes, triggers, rules, policies.
  if (has('schema', 'table', 'name')) return ({ schema, table }) => inSchema(schema, table);
  const [isTable, isSequence, isView] = [has('row_security'), has('owned_by'), has('kind', 'def')];
  if (has('schema', 'name') && (isTable || isSequence || isView))
    return ({ schema, name }) => inSchema(schema, name);
  return undefined;
}

const isIndexes = ({ columns }: Answer) => columns.includes('def') && columns.includes('valid');
const isDependencies = ({ columns }: Answer) =>
  columns.includes('dependent') && columns.includes('referenced');
const isInheritance = ({ columns }: Answer) => columns.includes('child_schema');

/**
 * The answers of two schemas without the relations that their difference cannot touch: kept are those that differ,
 * whatever depends on these (transitively), and what all of them refer to. As reduce() does with facts, but before there
 * are any: of 10,000 tables a migration changes a few.
 * @param also objects that are to be kept although they do not differ.
 */
export function narrowed(
  before: Answers,
  after: Answers,
  also: readonly Named[] = [],
): { before: Answers; after: Answers } {
  const questions = [...before.keys()];
  // Of servers that are asked otherwise nothing can be told from the answers alone.
  if (before.size !== after.size || questions.some((sql) => !after.has(sql))) return { before, after };
  const pairs = questions.flatMap((sql): (readonly [Answer, Answer])[] => {
    const [then, now] = [before.get(sql), after.get(sql)];
    return then && now ? [[inColumnsOf(now, then), inColumnsOf(then, now)]] : [];
  });
  const linked = linksIn(pairs.flat());
  const changed = new Set(also.map((named) => placeOf(named)));
  const links: Link[] = [];
  for (const [then, now] of pairs) {
    const different = differentRows(then, now);
    for (const place of placesOf(then, different, linked)) changed.add(place);
    if (isDependencies(then) || isInheritance(then))
      for (const link of [...linksOf.each(then.rows, linked), ...different.map(linked)]) links.push(link);
  }
  const kept = around(changed, links);
  const keep = (answers: Answers) =>
    new Map([...answers].map(([sql, answer]) => [sql, part(answer, kept, linked)] as const));
  return { before: keep(before), after: keep(after) };
}

/** What was not asked has no columns of its own. */
function inColumnsOf({ columns, json }: Answer, answer: Answer): Answer {
  return answer.columns.length === 0 ? { ...answer, columns, json } : answer;
}

/** How a question is asked again of what was touched, and how that becomes an answer about everything. */
export interface Again {
  readonly sql: string;
  whole(answer: Answer): Answer;
}

/**
 * For questions whose answers grow with the number of relations: how to ask them of the touched ones alone, and add what was
 * told of the others before. Nothing for questions that are to be asked as they are.
 */
export function againOf(before: Answers, { now, before: were }: Touched): Map<string, Again> {
  const touched = new Set(were.names.map(([schema, name]) => inSchema(schema, name)));
  const linked = linksIn([...before.values()]);
  const stays = ({ place, isRelation }: End) => isRelation && !touched.has(place);
  const found = new Map<string, Again>();
  for (const [question, then] of before) {
    const relation = relationsIn(then);
    const sql = relation
      ? onlyOf(question, now)
      : isDependencies(then)
        ? dependenciesOf(question, now)
        : undefined;
    if (sql === undefined) continue;
    const whole = (answer: Answer): Answer => {
      if (relation)
        return { ...answer, rows: following(then.rows, answer.rows, (row) => !touched.has(relation(row))) };
      const told = new Set(answer.rows.map(textOf));
      const links = linksOf.each(then.rows, linked);
      const keeps = (row: Row, { from, to }: Link) =>
        stays(from) && (stays(to) || !to.isRelation) && !told.has(textOf(row));
      return {
        ...answer,
        rows: following(then.rows, answer.rows, (row, index) => keeps(row, links[index] as Link)),
      };
    };
    found.set(question, { sql, whole });
  }
  return found;
}

/** Does beforehand what takes time in againOf() and narrowed(). */
export function readLinks(before: Answers): void {
  const linked = linksIn([...before.values()]);
  for (const answer of before.values())
    if (isDependencies(answer) || isInheritance(answer)) linksOf.each(answer.rows, linked);
}

/**
 * What was made of the rows of an answer, by their order: rows that were not read again say the same in the next answer. Kept beside
 * the rows and not with each of them, which would cost the collector more than making it again.
 */
class Derived<T> {
  readonly #known = new WeakMap<readonly Row[], T[]>();

  each(rows: readonly Row[], make: (row: Row) => T): readonly T[] {
    const known = this.#known.get(rows) ?? [];
    for (let index = known.length; index < rows.length; index++) known.push(make(rows[index] as Row));
    this.#known.set(rows, known);
    return known;
  }

  /** The first rows of the other answer are these of the one; what was made of them is taken over, if it was. */
  carry(from: readonly Row[], indexes: readonly number[], to: readonly Row[]): void {
    const known = this.#known.get(from);
    if (known?.length === from.length)
      this.#known.set(
        to,
        indexes.map((index) => known[index] as T),
      );
  }
}

const linksOf = new Derived<Link>();
const contentOf = new Derived<string>();

/** The rows that stay, and then the new ones. */
function following(
  then: readonly Row[],
  now: readonly Row[],
  stays: (row: Row, index: number) => boolean,
): Row[] {
  const indexes: number[] = [];
  for (const [index, row] of then.entries()) if (stays(row, index)) indexes.push(index);
  const rows = [...indexes.map((index) => then[index] as Row), ...now];
  for (const derived of [linksOf, contentOf]) derived.carry(then, indexes, rows);
  return rows;
}

const textOf = ({ dependent, referenced }: Row) => `${dependent}\0${referenced}`;

/** The answers without any relation, and without what depends on what: that follows from the definitions. */
export function withoutRelations(answers: Answers): Answers {
  const leavesOut = (answer: Answer) =>
    relationsIn(answer) || isDependencies(answer) || isInheritance(answer);
  return new Map(
    [...answers].map(([sql, answer]) => [sql, leavesOut(answer) ? { ...answer, rows: [] } : answer]),
  );
}

/**
 * All that the answers tell of relations, as text that is equal for equal schemas: without what pg-delta does not compare
 * either, as the position of a column.
 */
export function contentOfRelations(answers: Answers): string[] {
  const content = new Map<string, string[]>();
  for (const answer of answers.values()) {
    // A question may have been left out since it has no answer.
    if (!relationsIn(answer) || answer.rows.length === 0) continue;
    const compared = answer.columns.filter((column) => column !== 'position');
    const rows = contentOf.each(answer.rows, (row) =>
      JSON.stringify(compared.map((column) => told(column, row[column]))),
    );
    content.set(compared.join(), rows.toSorted());
  }
  return [...content.keys()].sort().flatMap((kind) => [kind, ...(content.get(kind) ?? [])]);
}

function told(column: string, value: unknown): unknown {
  if (column === 'reloptions') return Array.isArray(value) ? value.toSorted() : [];
  if (column !== 'acl' || typeof value !== 'string') return value;
  // What the owner has by default differs from version to version.
  const grants: { grantee: string; privileges: string[]; grantable: string[] | null }[] = JSON.parse(value);
  return grants.map(({ grantee, privileges, grantable }) => [grantee, privileges, grantable ?? []]);
}

function part(answer: Answer, kept: ReadonlySet<Place>, linked: (row: Row) => Link): Answer {
  const relation = relationsIn(answer);
  if (relation) return { ...answer, rows: answer.rows.filter((row) => kept.has(relation(row))) };
  if (!isDependencies(answer) && !isInheritance(answer)) return answer;
  const isKept = ({ place, isRelation }: End) => !isRelation || kept.has(place);
  const links = linksOf.each(answer.rows, linked);
  return {
    ...answer,
    rows: answer.rows.filter((_, index) => {
      const { from, to } = links[index] as Link;
      return isKept(from) && isKept(to);
    }),
  };
}

/** Where these rows of an answer belong. */
function* placesOf(answer: Answer, rows: readonly Row[], linked: (row: Row) => Link): Generator<Place> {
  const relation = relationsIn(answer);
  const isLink = isDependencies(answer) || isInheritance(answer);
  for (const row of rows) {
    if (relation) yield relation(row);
    else if (isLink) yield linked(row).from.place;
    else {
      const { schema, name, domain, server } = row;
      if (schema !== undefined) yield inSchema(schema, domain ?? name);
      for (const each of [name, server]) {
        if (each === undefined) continue;
        yield outside(each);
        yield hub(each);
      }
    }
  }
}

/** The rows that only one of the answers has. Both come in the same order, as far as there is one. */
function differentRows({ columns, rows: then }: Answer, { rows: now }: Answer): Row[] {
  const equal = (one: Row | undefined, other: Row | undefined) => {
    for (const column of columns) {
      const [a, b] = [one?.[column], other?.[column]];
      if (a !== b && !(Array.isArray(a) && JSON.stringify(a) === JSON.stringify(b))) return false;
    }
    return true;
  };
  // Rows of relations that were not read again are the same objects.
  const [inThen, inNow] = [new Set(then), new Set(now)];
  then = then.filter((row) => !inNow.has(row));
  now = now.filter((row) => !inThen.has(row));
  const shorter = Math.min(then.length, now.length);
  let first = 0;
  while (first < shorter && equal(then[first], now[first])) first++;
  let last = 0;
  while (last < shorter - first && equal(then.at(-1 - last), now.at(-1 - last))) last++;
  const between = (rows: readonly Row[]) =>
    new Map(rows.slice(first, rows.length - last).map((row) => [JSON.stringify(row), row]));
  const [onlyThen, onlyNow] = [between(then), between(now)];
  return [
    ...[...onlyThen].filter(([text]) => !onlyNow.has(text)).map(([, row]) => row),
    ...[...onlyNow].filter(([text]) => !onlyThen.has(text)).map(([, row]) => row),
  ];
}

/** One thing depends on another. */
interface Link {
  readonly from: End;
  readonly to: End;
}

interface End {
  readonly place: Place;
  /** Its rows may be left out. */
  readonly isRelation: boolean;
}

/** Of what is no object of the database's users. */
const NOWHERE: End = { place: '', isRelation: false };
/** What is told in a schema of its own, and not with a relation. */
const APART: ReadonlySet<string> = new Set([
  'function',
  'procedure',
  'aggregate',
  'type',
  'domain',
  'collation',
  'foreignTable',
] as const satisfies StableId['kind'][]);

/** How to read the rows of the answers that tell what depends on what. */
function linksIn(answers: readonly Answer[]): (row: Row) => Link {
  /** An index is told with its table. */
  const tables = new Map<Place, Place>();
  for (const answer of answers.filter(isIndexes))
    for (const { schema, name, table } of answer.rows)
      tables.set(inSchema(schema, name), inSchema(schema, table));
  const ends = new Map<unknown, End>();
  const endOf = (told: unknown): End => {
    const known = ends.get(told);
    if (known) return known;
    const end = typeof told === 'string' ? read(JSON.parse(told)) : NOWHERE;
    ends.set(told, end);
    return end;
  };
  const read = (named: Named): End => {
    const place = placeOf(named);
    return {
      place: named.kind === 'index' ? (tables.get(place) ?? place) : place,
      isRelation: named.schema !== undefined && !APART.has(named.kind),
    };
  };
  return (row) => {
    if ('dependent' in row) return { from: endOf(row.dependent), to: endOf(row.referenced) };
    const { child_schema, child_name, parent_schema, parent_name } = row;
    return {
      from: { place: inSchema(child_schema, child_name), isRelation: true },
      to: { place: inSchema(parent_schema, parent_name), isRelation: true },
    };
  };
}

/** What depends on these, whatever it takes to get there, with all that it refers to. */
function around(changed: ReadonlySet<Place>, links: readonly Link[]): ReadonlySet<Place> {
  if (changed.size === 0) return changed;
  const [users, uses] = [new Map<Place, Place[]>(), new Map<Place, Place[]>()];
  for (const { from, to } of links) {
    if (from.place === to.place || from === NOWHERE || to === NOWHERE) continue;
    add(users, to.place, from.place);
    add(uses, from.place, to.place);
  }
  const leadsOn = (place: Place) => changed.has(place) || !place.startsWith(HUB);
  return reached(reached(changed, users, leadsOn), uses, leadsOn);
}

function add(map: Map<Place, Place[]>, key: Place, value: Place): void {
  const known = map.get(key);
  if (known) known.push(value);
  else map.set(key, [value]);
}

function reached(
  start: ReadonlySet<Place>,
  next: ReadonlyMap<Place, readonly Place[]>,
  leadsOn: (place: Place) => boolean,
): Set<Place> {
  const found = new Set(start);
  // A set is walked through with what is added meanwhile.
  for (const place of found) if (leadsOn(place)) for (const each of next.get(place) ?? []) found.add(each);
  return found;
}
