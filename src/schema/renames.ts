import type { Rename } from '../model/report.ts';
import { identifier, literal } from '../postgres/sql/quote.ts';
import { type CatalogueIdentity, type Identified, label, type ObjectKind } from './identity.ts';

/**
 * Before and after are the same database, before and after the command. An object that kept its OID (a column its attnum)
 * under another name was renamed, one in another schema was moved, a partition with another parent was attached or
 * detached. A comparison by names would drop and create it instead, so these steps are taken back before the
 * comparison, and reported as renames.
 */
export interface Step {
  readonly kind: ObjectKind;
  /** The object's name after the command. */
  readonly object: string;
  /** Takes the step back. The steps are taken back in their order. */
  readonly undo: string;
  /** Repeats the step. The steps are repeated in reverse order. */
  readonly redo: string;
}

/** Names inside a relation first, schemas last, so that each statement can name its object by the names that are valid then. */
const LAYERS: readonly (readonly ObjectKind[])[] = [
  ['column', 'attribute', 'constraint', 'domain constraint', 'trigger', 'policy', 'rule', 'enum value'],
  ['function', 'procedure', 'aggregate'],
  ['table', 'view', 'materialized view', 'foreign table', 'sequence', 'index', 'type', 'domain'],
  ['collation', 'statistics', 'event trigger', 'publication'],
  ['schema'],
];

/** Finds what was renamed, moved, attached or detached, and the steps that take it back. */
export function keptObjects(
  before: CatalogueIdentity,
  after: CatalogueIdentity,
): { renames: Rename[]; steps: Step[] } {
  const changed: { then: Identified; now: Identified }[] = [];
  const partitions: Identified[] = [];
  for (const now of after.values()) {
    const then = before.get(now.key);
    if (!then) continue;
    if (renamed(then, now) || moved(then, now)) changed.push({ then, now });
    if (reattached(then, now, before, after)) partitions.push(now);
  }
  if (changed.length === 0 && partitions.length === 0) return { renames: [], steps: [] };

  const path = new UndoPath(after);
  for (const now of partitions) path.reattach(now, before.get(now.key)?.partition ?? null);
  for (const layer of LAYERS) {
    path.moveAll(
      changed
        .filter(({ now }) => layer.includes(now.kind))
        .map(({ then, now }) => ({
          key: now.key,
          name: renamed(then, now) ? then.name : now.name,
          within: moved(then, now) ? then.within : now.within,
        })),
    );
  }
  const renames = changed.map(({ then, now }) => ({
    kind: now.kind,
    from: label(then, before),
    to: label(now, after),
  }));
  return { renames, steps: path.steps };
}

const renamed = (then: Identified, now: Identified) =>
  then.name !== now.name && !(then.follows === 'name' && now.follows === 'name');

const moved = (then: Identified, now: Identified) =>
  then.within !== now.within && then.follows === null && now.follows === null;

function reattached(
  then: Identified,
  now: Identified,
  before: CatalogueIdentity,
  after: CatalogueIdentity,
): boolean {
  if (then.partition?.of === now.partition?.of) return false;
  return (
    (!then.partition || after.has(then.partition.of)) && (!now.partition || before.has(now.partition.of))
  );
}

/** The name and the place that an object is to have. */
type Move = Pick<Identified, 'key' | 'name' | 'within'>;

/** Keeps the names that are in use while the steps are taken back one by one. */
class UndoPath {
  readonly steps: Step[] = [];
  readonly #after: CatalogueIdentity;
  readonly #now: Map<string, Identified>;
  readonly #taken = new Map<string, string>();

  constructor(after: CatalogueIdentity) {
    this.#after = after;
    this.#now = new Map(after);
    for (const object of after.values()) this.#take(object);
  }

  moveAll(moves: readonly Move[]): void {
    let waiting = [...moves];
    while (waiting.length > 0) {
      const pending = new Set(waiting.map((move) => move.key));
      const free = waiting.filter((move) => this.#holders(move).every((holder) => !pending.has(holder)));
      // If names were swapped, none is free: the first one renames the others to temporary names.
      for (const move of free.length > 0 ? free : waiting.slice(0, 1)) {
        this.#move(move);
        waiting = waiting.filter((other) => other !== move);
      }
    }
  }

  reattach(now: Identified, then: Identified['partition']): void {
    const attach = (to: NonNullable<Identified['partition']>) =>
      `ALTER TABLE ${this.#name(to.of)} ATTACH PARTITION ${this.#name(now.key)} ${to.bound}`;
    const detach = (from: NonNullable<Identified['partition']>) =>
      `ALTER TABLE ${this.#name(from.of)} DETACH PARTITION ${this.#name(now.key)}`;
    if (now.partition) this.#add(now.key, detach(now.partition), attach(now.partition));
    if (then) this.#add(now.key, attach(then), detach(then));
  }

  #move(move: Move): void {
    for (const holder of this.#holders(move)) this.#evict(holder);
    const current = this.#current(move.key);
    if (current.name !== move.name) {
      for (const holder of this.#holders({ ...move, within: current.within })) this.#evict(holder);
      this.#rename(current, move.name);
    }
    if (current.within !== move.within) this.#setSchema(this.#current(move.key), move.within);
  }

  #evict(key: string): void {
    const { name, within } = this.#current(key);
    for (let attempt = 1; ; attempt++) {
      const other = `${cut(name)}_new${attempt === 1 ? '' : attempt}`;
      if (this.#holders({ key, within, name: other }).length === 0) {
        this.#rename(this.#current(key), other);
        return;
      }
    }
  }

  #rename(object: Identified, to: string): void {
    const undo = this.#renameSql(object.key, to);
    this.#put({ ...object, name: to });
    this.#add(object.key, undo, this.#renameSql(object.key, object.name));
  }

  #setSchema(object: Identified, to: string | null): void {
    const sql = (schema: string | null) =>
      `ALTER ${this.#address(object.key)} SET SCHEMA ${identifier(schema === null ? '' : this.#current(schema).name)}`;
    const undo = sql(to);
    this.#put({ ...object, within: to });
    this.#add(object.key, undo, sql(object.within));
  }

  #add(key: string, undo: string, redo: string): void {
    const object = this.#after.get(key);
    if (object) this.steps.push({ kind: object.kind, object: label(object, this.#after), undo, redo });
  }

  #renameSql(key: string, to: string): string {
    const { kind, name, within } = this.#current(key);
    const [from, next, outer] = [identifier(name), identifier(to), within ?? ''];
    switch (kind) {
      case 'column':
        return `ALTER ${this.#address(outer)} RENAME COLUMN ${from} TO ${next}`;
      case 'attribute':
        return `ALTER ${this.#address(outer)} RENAME ATTRIBUTE ${from} TO ${next} CASCADE`;
      case 'constraint':
        return `ALTER TABLE ${this.#name(outer)} RENAME CONSTRAINT ${from} TO ${next}`;
      case 'domain constraint':
        return `ALTER ${this.#address(outer)} RENAME CONSTRAINT ${from} TO ${next}`;
      case 'enum value':
        return `ALTER ${this.#address(outer)} RENAME VALUE ${literal(name)} TO ${literal(to)}`;
      case 'trigger':
      case 'policy':
      case 'rule':
        return `ALTER ${kind.toUpperCase()} ${from} ON ${this.#name(outer)} RENAME TO ${next}`;
      default:
        return `ALTER ${this.#address(key)} RENAME TO ${next}`;
    }
  }

  /** Kind and name as ALTER takes them. */
  #address(key: string): string {
    const { kind, args } = this.#current(key);
    const signature = args === null ? '' : `(${args === '' && kind === 'aggregate' ? '*' : args})`;
    return `${kind.toUpperCase()} ${this.#name(key)}${signature}`;
  }

  #name(key: string): string {
    const { name, within } = this.#current(key);
    return within === null ? identifier(name) : `${this.#name(within)}.${identifier(name)}`;
  }

  #current(key: string): Identified {
    const object = this.#now.get(key);
    if (!object) throw new Error(`no object ${key} in the catalogue that was read`);
    return object;
  }

  #put(object: Identified): void {
    for (const place of this.#places(this.#current(object.key))) this.#taken.delete(place);
    this.#now.set(object.key, object);
    this.#take(object);
  }

  #take(object: Identified): void {
    for (const place of this.#places(object)) this.#taken.set(place, object.key);
  }

  /** The other objects that hold an object's future name. */
  #holders(move: Move): string[] {
    const places = this.#places({ ...this.#current(move.key), name: move.name, within: move.within });
    const holders = places.map((place) => this.#taken.get(place));
    return [...new Set(holders.filter((key) => key !== undefined && key !== move.key))] as string[];
  }

  /**
   * The unique indexes of the catalogue that a name has to fit into: relations of every kind share one name space in
   * a schema, a table takes a name among the types as well, and a constraint gives its name to its index.
   */
  #places(object: Identified): string[] {
    const place = (space: string, within = object.within) => `${space} ${within} ${object.name}`;
    switch (object.kind) {
      case 'table':
      case 'view':
      case 'materialized view':
      case 'foreign table':
        return [place('relation'), place('type')];
      case 'type':
      case 'domain':
        return object.key.startsWith('pg_class:') ? [place('relation'), place('type')] : [place('type')];
      case 'index':
        return object.follows === 'name' ? [] : [place('relation')];
      case 'sequence':
        return [place('relation')];
      case 'constraint': {
        const table = object.index === null ? undefined : this.#now.get(object.within ?? '');
        return table ? [place('constraint'), place('relation', table.within)] : [place('constraint')];
      }
      case 'function':
      case 'procedure':
      case 'aggregate':
        return [`routine ${object.within} ${object.name}(${object.args})`];
      default:
        return [place(object.kind)];
    }
  }
}

/** Leaves room for a suffix within PostgreSQL's 63 bytes. */
function cut(name: string): string {
  let short = name;
  while (Buffer.byteLength(short) > 56) short = [...short].slice(0, -1).join('');
  return short;
}
