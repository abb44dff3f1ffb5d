import type { SchemaChange } from '../model/report.ts';
import { displayName, identifier, literal } from '../postgres/sql/quote.ts';
import {
  type Action,
  buildFactBase,
  type Delta,
  diff,
  encodeId,
  type Fact,
  type FactBase,
  type Payload,
  type Plan,
  plan,
  type StableId,
} from './pg-delta.ts';
import { inRunnableOrder } from './runnable.ts';
import { mayLose, type Retyped } from './type-changes.ts';

/** The ordered statements that turn one schema into another. */
export function planBetween(from: FactBase, to: FactBase): Plan {
  // Roles belong to the cluster: statements may name them, but none creates or drops one.
  const assumedRoles = [...new Set([...roleNames(from), ...roleNames(to)])];
  const { to: wanted, actions } = collationsApart(diff(from, to), to);
  const made = plan(from, wanted, { scope: 'database', assumedRoles });
  const all = [...made.actions.map((action) => castByText(action, made)), ...actions];
  return { ...made, actions: inRunnableOrder(all) };
}

type Column = Extract<StableId, { table: string; schema: string; name: string }>;

/**
 * PostgreSQL changes a column's collation in place and keeps its values; pg-delta would drop the column and add it.
 * So the collations stay out of its plan, and these statements follow it.
 */
function collationsApart(deltas: readonly Delta[], to: FactBase): { to: FactBase; actions: Action[] } {
  const kept = new Map<string, Payload[string]>();
  const actions: Action[] = [];
  for (const delta of deltas) {
    if (delta.verb !== 'set' || delta.id.kind !== 'column' || delta.attr !== 'collation') continue;
    kept.set(encodeId(delta.id), delta.from);
    const type = String(to.get(delta.id)?.payload.type);
    actions.push(alteration(delta.id as Column, `${type} COLLATE ${delta.to ?? 'pg_catalog."default"'}`));
  }
  if (actions.length === 0) return { to, actions };
  const facts = to.facts().map((fact) => {
    const key = encodeId(fact.id);
    if (!kept.has(key)) return fact;
    return { ...fact, payload: { ...fact.payload, collation: kept.get(key) } };
  });
  return { to: buildFactBase(facts, [...to.edges], to.source), actions };
}

function alteration(id: Column, type: string): Action {
  const table = `${identifier(id.schema)}.${identifier(id.table)}`;
  return {
    sql: `ALTER TABLE ${table} ALTER COLUMN ${identifier(id.name)} TYPE ${type}`,
    verb: 'alter',
    produces: [],
    consumes: [id],
    destroys: [],
    releases: [],
    transactionality: 'transactional',
    lockClass: 'accessExclusive',
    newSegmentBefore: false,
    dataLoss: 'none',
    rewriteRisk: false,
  };
}

function roleNames(base: FactBase): string[] {
  return base.roots().flatMap(({ id }) => (id.kind === 'role' ? [id.name] : []));
}

/** User-defined types, such as two enums, have no cast to each other, but every type can be read from text. */
function castByText(action: Action, { deltas }: Plan): Action {
  if (!/ TYPE .* USING /.test(action.sql)) return action;
  const [column] = action.consumes.map(encodeId);
  const made = deltas.some(
    (delta) =>
      delta.verb === 'set' &&
      delta.attr === 'type' &&
      encodeId(delta.id) === column &&
      [delta.from, delta.to].some((type) => String(type).includes('.')),
  );
  if (!made) return action;
  return { ...action, sql: action.sql.replace(/ USING ("(?:[^"]|"")+")::(?!text::)/, ' USING $1::text::') };
}

/**
 * Makes one entry per statement. A changed type counts as converted by an expression, since the plan does not know the command's
 * statement; withoutLossOf() corrects that.
 * @param owner the role that owns new objects unless a statement names another.
 */
export function changesOf(plan: Plan, owner: string): SchemaChange[] {
  const made = new Set(plan.actions.flatMap((action) => action.produces.map(encodeId)));
  const lossy = new Map<string, boolean>();
  for (const delta of plan.deltas) {
    if (delta.verb === 'set' && delta.id.kind === 'column' && delta.attr === 'type')
      lossy.set(encodeId(delta.id), mayLose(String(delta.from), String(delta.to), 'expression'));
  }
  const changed = new Set(
    plan.deltas.flatMap((delta) =>
      'fact' in delta ? encodeId(delta.fact.id) : 'id' in delta ? encodeId(delta.id) : [],
    ),
  );
  // A type that is made again takes the defaults of its columns off for a moment.
  const isKeptDefault = (id: StableId) => id.kind === 'default' && !changed.has(encodeId(id));
  const owned = ownedSequences(plan);
  const gained = gainedPrivileges(plan);
  return plan.actions
    .filter((action) => !setsImpliedOwner(action, made, owner) && !dropsNoDefault(action, plan))
    .filter((action) => !action.sql.startsWith('REVOKE ') || !gained.has(encodeId(subjectOf(action))))
    .filter((action) => !owned.has(encodeId(subjectOf(action))) && !isKeptDefault(subjectOf(action)))
    .map((action) => {
      const subject = subjectOf(action);
      const retyped = / TYPE /.test(action.sql) && lossy.get(encodeId(subject)) === true;
      return {
        verb: verbOf(action, subject),
        ...described(subject),
        sql: action.sql,
        // What a new enum under the old name cannot hold, the command could not have converted.
        dataLoss: (action.dataLoss === 'destructive' && subject.kind !== 'type') || retyped,
      };
    });
}

export const texts = (value: Payload[string]) => (Array.isArray(value) ? value.map(String) : []);

/** Finds roles that lose no privilege on an object: a plan revokes all privileges before it grants the new ones. */
function gainedPrivileges({ deltas }: Plan): Set<string> {
  const gained = new Set<string>();
  const lost = new Set<string>();
  for (const delta of deltas) {
    if (delta.verb === 'set' && delta.id.kind === 'acl') {
      const [before, after] = [texts(delta.from), texts(delta.to)];
      const loses = before.some((privilege) => !after.includes(privilege));
      (loses ? lost : gained).add(encodeId(delta.id));
    } else if (delta.verb === 'add' && delta.fact.id.kind === 'acl') {
      // PUBLIC may execute a new function without being granted it.
      const { id, payload } = delta.fact;
      if (id.grantee !== 'PUBLIC' && texts(payload.privileges).length > 0) gained.add(encodeId(id));
    }
  }
  return new Set([...gained].filter((key) => !lost.has(key)));
}

/** Finds the columns whose type changes. @param after the schema that the deltas lead to, if enums matter. */
export function retypedColumns(deltas: readonly Delta[], after?: FactBase): Retyped[] {
  const changes = deltas.flatMap((delta) =>
    delta.verb === 'set' && delta.id.kind === 'column' && delta.attr === 'type'
      ? [{ object: described(delta.id).object, from: String(delta.from), to: String(delta.to) }]
      : [],
  );
  if (changes.length === 0 || after === undefined) return changes;
  const enums = after.facts().filter(({ id, payload }) => id.kind === 'type' && payload.variant === 'enum');
  const names = new Set(enums.map(({ id }) => described(id).object));
  return changes.map((change) => (names.has(change.to) ? { ...change, isEnum: true } : change));
}

/** Sequences of identity and serial columns that come or go with them: they are no changes of their own. */
function ownedSequences({ actions, deltas }: Plan): Set<string> {
  const moved = new Set(
    actions.flatMap(({ produces, destroys }) => [...produces, ...destroys]).map((id) => encodeId(id)),
  );
  const found = new Set<string>();
  for (const delta of deltas)
    if ('fact' in delta && ownersOf(delta.fact).some((id) => moved.has(encodeId(id))))
      found.add(encodeId(delta.fact.id));
  return found;
}

/** Returns the column and the table that a sequence belongs to, as that of a serial or identity column does. */
export function ownersOf({ id, payload: { ownedBy } }: Fact): StableId[] {
  if (id.kind !== 'sequence' || ownedBy == null) return [];
  const { schema, table, column } = ownedBy as { schema: string; table: string; column: string };
  return [
    { kind: 'column', schema, table, name: column },
    { kind: 'table', schema, name: table },
  ];
}

/** pg-delta drops a default before each change of a column's type, whether there is one or not. */
function dropsNoDefault({ sql, destroys }: Action, { actions }: Plan): boolean {
  const column =
    / DROP DEFAULT$/.test(sql) && destroys.length === 0 ? sql.slice(0, -'DROP DEFAULT'.length) : '';
  return column !== '' && !actions.some((other) => other.sql.startsWith(`${column}SET DEFAULT `));
}

function setsImpliedOwner(action: Action, made: ReadonlySet<string>, owner: string): boolean {
  const isOwner = (id: StableId) => id.kind === 'role' && id.name === owner;
  return (
    action.verb === 'alter' &&
    action.produces.length === 0 &&
    / OWNER TO /.test(action.sql) &&
    action.consumes.some(isOwner) &&
    action.consumes.some((id) => made.has(encodeId(id)))
  );
}

function subjectOf({ produces, destroys, consumes }: Action): StableId {
  const subject = produces[0] ?? destroys[0] ?? consumes[0];
  return subject ?? { kind: 'schema', name: '' };
}

function verbOf(action: Action, subject: StableId): SchemaChange['verb'] {
  if (subject.kind === 'comment') return 'comment';
  if (subject.kind === 'acl' || subject.kind === 'defaultPrivilege')
    return /\bREVOKE\b/i.test(action.sql) ? 'revoke' : 'grant';
  // OWNED BY and row-level security come after CREATE, and pg-delta counts them as a part of it.
  const isLater =
    action.sql.startsWith('ALTER SEQUENCE ') ||
    (subject.kind === 'table' && action.verb === 'create' && action.sql.startsWith('ALTER TABLE '));
  return isLater ? 'alter' : action.verb;
}

const KINDS: Partial<Record<StableId['kind'], string>> = {
  materializedView: 'materialized view',
  foreignTable: 'foreign table',
  eventTrigger: 'event trigger',
  fdw: 'foreign-data wrapper',
  userMapping: 'user mapping',
  typeAttribute: 'attribute',
  publicationRel: 'publication',
  publicationSchema: 'publication',
  defaultPrivilege: 'default privileges',
  membership: 'role membership',
  default: 'column default',
};

/** Kind and name of a fact as PostgreSQL calls them; for a comment or a grant those of its object. */
export function described(id: StableId): { kind: string; object: string } {
  switch (id.kind) {
    case 'comment':
    case 'securityLabel':
      return described(id.target);
    case 'acl':
      return id.column === undefined
        ? described(id.target)
        : { kind: 'column', object: `${described(id.target).object}.${displayName(id.column)}` };
    default:
      return { kind: KINDS[id.kind] ?? id.kind, object: objectName(id) };
  }
}

function objectName(id: Exclude<StableId, { kind: 'comment' | 'securityLabel' | 'acl' }>): string {
  switch (id.kind) {
    case 'membership':
      return `${displayName(id.member)} in ${displayName(id.role)}`;
    case 'userMapping':
      return `${displayName(id.role)} on ${displayName(id.server)}`;
    case 'typeAttribute':
      return displayName(id.schema, id.type, id.name);
    case 'publicationRel':
      return `${displayName(id.publication)}: ${displayName(id.schema, id.table)}`;
    case 'publicationSchema':
      return `${displayName(id.publication)}: ${displayName(id.schema)}`;
    case 'defaultPrivilege':
      return `${displayName(id.role)}${id.schema === null ? '' : ` in ${displayName(id.schema)}`} for ${id.grantee === 'PUBLIC' ? id.grantee : displayName(id.grantee)}`;
    case 'extensionIntent':
      return `${id.ext}: ${id.key}`;
    case 'function':
    case 'procedure':
    case 'aggregate':
      return `${displayName(id.schema, id.name)}(${id.args.join(', ')})`;
    default:
      if ('table' in id) return displayName(id.schema, id.table, id.name);
      return 'schema' in id ? displayName(id.schema, id.name) : displayName(id.name);
  }
}

/** A plan's statements as one script, with the settings that it needs. */
export function statementsOf(plan: Plan): string[] {
  const settings = plan.preamble.filter(({ name }) => name !== 'search_path');
  if (plan.actions.length === 0) return [];
  return [
    ...settings.map(({ name, value }) => `SET ${name} = ${/^\w+$/.test(value) ? value : literal(value)}`),
    ...plan.actions.map(({ sql }) => sql.trimEnd().replace(/;$/, '')),
    ...settings.map(({ name }) => `RESET ${name}`),
  ];
}
