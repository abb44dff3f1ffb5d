import type { Answer, Answers, Row } from './extraction.ts';
import { HUBS } from './reduce.ts';

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
/** Of what is no object of the database's users. */
const NOWHERE: Place = '';

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
  // Of servers that are asked otherwise nothing can be told from the answers alone.
  if (before.size !== after.size || [...before.keys()].some((sql) => !after.has(sql)))
    return { before, after };
  const links = new Links(before, after);
  const changed = new Set(also.map(placeOf));
  for (const [sql, then] of before) {
    const now = after.get(sql);
    if (now) for (const place of changedIn(then, now, links)) changed.add(place);
  }
  const kept = links.around(changed);
  const keep = (answers: Answers) =>
    new Map([...answers].map(([sql, answer]) => [sql, part(answer, kept, links)] as const));
  return { before: keep(before), after: keep(after) };
}

/** The answers without any relation, and without what depends on what: that follows from the definitions. */
export function withoutRelations(answers: Answers): Answers {
  const leavesOut = (answer: Answer) => relationsIn(answer) || isDependencies(answer) || isInheritance(answer);
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
    if (!relationsIn(answer)) continue;
    const compared = answer.columns.filter((column) => column !== 'position');
    const rows = answer.rows.map((row) =>
      JSON.stringify(compared.map((column) => told(column, row[column]))),
    );
    content.set(compared.join(), rows.sort());
  }
  return [...content.keys()].sort().flatMap((kind) => [kind, ...(content.get(kind) ?? [])]);
}

function told(column: string, value: unknown): unknown {
  if (column === 'reloptions' && Array.isArray(value)) return value.toSorted();
  if (column !== 'acl' || typeof value !== 'string') return value;
  // What the owner has by default differs from version to version.
  const grants: { grantee: string; privileges: string[]; grantable: string[] | null }[] = JSON.parse(value);
  return grants.map(({ grantee, privileges, grantable }) => [grantee, privileges, grantable]);
}

function part(answer: Answer, kept: ReadonlySet<Place>, links: Links): Answer {
  const relation = relationsIn(answer);
  const isKept = (place: Place) => kept.has(place) || !links.relations.has(place);
  if (relation) return { ...answer, rows: answer.rows.filter((row) => isKept(relation(row))) };
  if (!isDependencies(answer) && !isInheritance(answer)) return answer;
  return {
    ...answer,
    rows: answer.rows.filter((row) => {
      const { from, to } = links.of(answer, row);
      return isKept(from) && isKept(to);
    }),
  };
}

function* changedIn(then: Answer, now: Answer, links: Links): Generator<Place> {
  const relation = relationsIn(then);
  for (const row of different(then, now)) {
    if (relation) yield relation(row);
    else if (isDependencies(then) || isInheritance(then)) yield links.of(then, row).from;
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
function different({ columns, rows: then }: Answer, { rows: now }: Answer): Row[] {
  const equal = (one: Row | undefined, other: Row | undefined) =>
    columns.every((column) => {
      const [a, b] = [one?.[column], other?.[column]];
      return a === b || (Array.isArray(a) && JSON.stringify(a) === JSON.stringify(b));
    });
  const shorter = Math.min(then.length, now.length);
  let first = 0;
  while (first < shorter && equal(then[first], now[first])) first++;
  let last = 0;
  while (last < shorter - first && equal(then.at(-1 - last), now.at(-1 - last))) last++;
  const [inThen, inNow] = [then, now].map(
    (rows) => new Map(rows.slice(first, rows.length - last).map((row) => [JSON.stringify(row), row])),
  ) as [Map<string, Row>, Map<string, Row>];
  return [
    ...[...inThen].filter(([text]) => !inNow.has(text)).map(([, row]) => row),
    ...[...inNow].filter(([text]) => !inThen.has(text)).map(([, row]) => row),
  ];
}

interface Link {
  readonly from: Place;
  readonly to: Place;
}

/** What depends on what, on either side. */
class Links {
  /** The places whose rows may be left out. */
  readonly relations = new Set<Place>();
  /** An index is told with its table. */
  readonly #tables = new Map<Place, Place>();
  readonly #places = new Map<unknown, Place>();
  readonly #answers: Answer[];

  constructor(before: Answers, after: Answers) {
    this.#answers = [...before.values(), ...after.values()];
    for (const answer of this.#answers) {
      const relation = relationsIn(answer);
      if (!relation) continue;
      for (const row of answer.rows) this.relations.add(relation(row));
      if (!isIndexes(answer)) continue;
      for (const row of answer.rows) this.#tables.set(inSchema(row.schema, row.name), relation(row));
    }
  }

  of(answer: Answer, row: Row): Link {
    if (isDependencies(answer)) return { from: this.#place(row.dependent), to: this.#place(row.referenced) };
    const { child_schema, child_name, parent_schema, parent_name } = row;
    return { from: inSchema(child_schema, child_name), to: inSchema(parent_schema, parent_name) };
  }

  /** What depends on these, whatever it takes to get there, with all that it refers to. */
  around(changed: ReadonlySet<Place>): ReadonlySet<Place> {
    const [users, uses] = [new Map<Place, Place[]>(), new Map<Place, Place[]>()];
    for (const answer of changed.size === 0 ? [] : this.#answers) {
      if (!isDependencies(answer) && !isInheritance(answer)) continue;
      for (const row of answer.rows) {
        const { from, to } = this.of(answer, row);
        if (from === to || from === NOWHERE || to === NOWHERE) continue;
        add(users, to, from);
        add(uses, from, to);
      }
    }
    const leadsOn = (place: Place) => changed.has(place) || !place.startsWith(HUB);
    return reached(reached(changed, users, leadsOn), uses, leadsOn);
  }

  #place(endpoint: unknown): Place {
    const known = this.#places.get(endpoint);
    if (known !== undefined) return known;
    const place = typeof endpoint === 'string' ? this.#placeOf(JSON.parse(endpoint)) : NOWHERE;
    this.#places.set(endpoint, place);
    return place;
  }

  #placeOf(endpoint: Named): Place {
    const place = placeOf(endpoint);
    return endpoint.kind === 'index' ? (this.#tables.get(place) ?? place) : place;
  }
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
