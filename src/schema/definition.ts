import { displayName, literal } from '../postgres/sql/quote.ts';
import { described, texts } from './changes.ts';
import { address, defaultPrivileges, metadata, ownerOf, text } from './metadata.ts';
import type { Fact, FactBase, Payload, StableId } from './pg-delta.ts';

type Value = Payload[string];

/** Replaces values that may be passwords: options of foreign servers and user mappings, connections of subscriptions. */
const HIDDEN = "'…'";
/** Marks a hidden value that differs from the one on the other side. */
const ANOTHER = '/* another */';

/**
 * Prints an object with its parts, as statements to be read, not run. Each item is one clause or statement, of one line or
 * more, so that no literal is cut in two if not all items can be shown.
 * @param owner is not mentioned. @param other the object on the side with which the definition is compared.
 */
export function definition(base: FactBase, fact: Fact, owner: string | undefined, other?: Fact): string[] {
  const parts = base.childrenOf(fact.id);
  const { id } = fact;
  const ownerNow = ownerOf(base, id);
  return [
    ...mainOf(base, fact, parts, other),
    ...(ownerNow === undefined || ownerNow === owner
      ? []
      : [`ALTER ${address(id)} OWNER TO ${displayName(ownerNow)};`]),
    ...of(parts, 'index').map(indexOf),
    ...of(parts, 'rule').flatMap((rule) => [text(rule, 'def'), ...firing(rule)]),
    ...of(parts, 'trigger').flatMap((trigger) => [`${text(trigger, 'def')};`, ...firing(trigger)]),
    ...of(parts, 'policy').map(policy),
    ...parts.flatMap((part) => metadata(base, part)),
    ...parts.flatMap((part) => base.childrenOf(part.id).flatMap((below) => metadata(base, below))),
  ];
}

function mainOf(base: FactBase, fact: Fact, parts: readonly Fact[], other: Fact | undefined): string[] {
  const { id, payload } = fact;
  const name = described(id).object;
  switch (id.kind) {
    case 'table':
    case 'foreignTable':
      return table(base, fact, parts, other);
    case 'view':
    case 'materializedView':
      return [`CREATE ${address(id)}${parameters(payload.reloptions)} AS\n${text(fact, 'def').trimEnd()}`];
    case 'function':
    case 'procedure':
      return [`${text(fact, 'def').trimEnd()};`];
    case 'type':
      return type(fact, parts);
    case 'domain':
      return clauses(`CREATE DOMAIN ${name} AS ${payload.baseType}`, [
        ...given('COLLATE', payload.collation),
        ...given('DEFAULT', payload.default),
        ...(payload.notNull ? ['NOT NULL'] : []),
        // From PostgreSQL 17 on, NOT NULL is a constraint as well.
        ...of(parts, 'constraint')
          .filter(({ payload: { type } }) => type !== 'n')
          .map(constraint),
      ]);
    case 'sequence':
      return sequence(fact);
    case 'defaultPrivilege':
      return defaultPrivileges(fact);
    case 'publication':
      return [
        ...plain(fact, other),
        ...parts.flatMap((part) =>
          part.id.kind === 'publicationRel' || part.id.kind === 'publicationSchema' ? [member(part)] : [],
        ),
      ];
    default:
      return plain(fact, other);
  }
}

const of = (parts: readonly Fact[], kind: StableId['kind']) => parts.filter(({ id }) => id.kind === kind);
const given = (word: string, value: Value) => (value == null ? [] : [`${word} ${value}`]);
const ownName = (id: StableId) => ('name' in id ? displayName(id.name) : '');

function clauses(head: string, items: readonly string[]): string[] {
  const lines = [head, ...items.map((item) => `  ${item}`)];
  return lines.map((line, index) => (index === lines.length - 1 ? `${line};` : line));
}

/** Each item on a line of its own. */
function inBrackets(head: string, items: readonly string[], tail = ''): string[] {
  if (items.length === 0) return [`${head}${tail};`];
  const lines = items.map((item, index) => `  ${item}${index === items.length - 1 ? '' : ','}`);
  return [`${head} (`, ...lines, `)${tail};`];
}

function table(base: FactBase, fact: Fact, parts: readonly Fact[], other: Fact | undefined): string[] {
  const { id, payload } = fact;
  const columns = inOrder(of(parts, 'column')).map((each) => column(base, each));
  const constraints = of(parts, 'constraint')
    .toSorted((one, next) => rankOf(one) - rankOf(next))
    .map(constraint);
  const unlogged = payload.persistence === 'u' ? 'UNLOGGED ' : '';
  const parent = named(payload.parentTable);
  const partition = payload.partitionBound == null ? '' : ` PARTITION OF ${parent} ${payload.partitionBound}`;
  const tail = [
    ...(parent !== '' && partition === '' ? [`INHERITS (${parent})`] : []),
    ...given('PARTITION BY', payload.partitionKey),
    ...(payload.server == null
      ? []
      : [`SERVER ${displayName(String(payload.server))}${options(fact, other)}`]),
  ];
  const items = [...columns, ...constraints];
  const head = `CREATE ${unlogged}${address(id)}${partition}`;
  return [
    ...inBrackets(
      items.length === 0 && partition === '' ? `${head} ()` : head,
      items,
      `${tail.map((part) => ` ${part}`).join('')}${parameters(payload.reloptions)}`,
    ),
    ...(payload.rowSecurity ? [`ALTER ${address(id)} ENABLE ROW LEVEL SECURITY;`] : []),
    ...(payload.forceRowSecurity ? [`ALTER ${address(id)} FORCE ROW LEVEL SECURITY;`] : []),
    ...replicaIdentity(fact),
  ];
}

const CONSTRAINT_ORDER = ['p', 'u', 'x', 'c', 'f'];
const rankOf = ({ payload }: Fact) => CONSTRAINT_ORDER.indexOf(String(payload.type));

function inOrder(facts: readonly Fact[]): Fact[] {
  return facts.toSorted((one, other) => Number(one.payload._position) - Number(other.payload._position));
}

function column(base: FactBase, { id, payload }: Fact): string {
  const value = of(base.childrenOf(id), 'default')[0];
  return [
    `${ownName(id)} ${payload.type}`,
    ...given('COLLATE', payload.collation),
    ...(value ? [`DEFAULT ${text(value, 'expr')}`] : []),
    ...(payload.generatedExpr == null ? [] : [`GENERATED ALWAYS AS (${payload.generatedExpr})`]),
    ...identity(payload.identity),
    ...(payload.notNull ? ['NOT NULL'] : []),
  ].join(' ');
}

function identity(value: Value): string[] {
  if (!isRecord(value)) return [];
  const steps = isRecord(value.options) && value.options.increment !== '1' ? value.options.increment : null;
  const how = value.generation === 'a' ? 'ALWAYS' : 'BY DEFAULT';
  return [`GENERATED ${how} AS IDENTITY${steps == null ? '' : ` (INCREMENT BY ${steps})`}`];
}

function constraint({ id, payload }: Fact): string {
  const validated = payload.validated || String(payload.def).includes('NOT VALID') ? '' : ' NOT VALID';
  return `CONSTRAINT ${ownName(id)} ${payload.def}${validated}`;
}

const indexOf = (fact: Fact) => `${text(fact, 'def')};${fact.payload.valid ? '' : ' -- not valid'}`;

function replicaIdentity({ id, payload }: Fact): string[] {
  const how: Record<string, string> = {
    f: 'FULL',
    n: 'NOTHING',
    i: `USING INDEX ${displayName(String(payload.replicaIdentityIndex))}`,
  };
  const words = how[String(payload.replicaIdentity)];
  return words === undefined ? [] : [`ALTER ${address(id)} REPLICA IDENTITY ${words};`];
}

function parameters(reloptions: Value): string {
  return texts(reloptions).length === 0 ? '' : ` WITH (${texts(reloptions).join(', ')})`;
}

/** Prints how a trigger or rule fires, unless it fires as usual. */
function firing({ id, parent, payload }: Fact): string[] {
  const how: Record<string, string> = { D: 'DISABLE', R: 'ENABLE REPLICA', A: 'ENABLE ALWAYS' };
  const words = how[String(payload.enabled)];
  if (words === undefined || !parent) return [];
  return [`ALTER ${address(parent)} ${words} ${id.kind.toUpperCase()} ${ownName(id)};`];
}

const COMMANDS: Record<string, string> = { r: 'SELECT', a: 'INSERT', w: 'UPDATE', d: 'DELETE' };

function policy({ id, parent, payload }: Fact): string {
  const roles = texts(payload.roles).map((role) => (role === 'PUBLIC' ? role : displayName(role)));
  return clauses(
    `CREATE POLICY ${ownName(id)} ON ${parent ? described(parent).object : ''}` +
      `${payload.permissive ? '' : ' AS RESTRICTIVE'} FOR ${COMMANDS[String(payload.cmd)] ?? 'ALL'} TO ${roles.join(', ')}`,
    [
      ...(payload.usingExpr == null ? [] : [`USING (${payload.usingExpr})`]),
      ...(payload.checkExpr == null ? [] : [`WITH CHECK (${payload.checkExpr})`]),
    ],
  ).join('\n');
}

function type(fact: Fact, parts: readonly Fact[]): string[] {
  const { id, payload } = fact;
  const head = `CREATE ${address(id)} AS`;
  if (payload.variant === 'enum') return inBrackets(`${head} ENUM`, texts(payload.values).map(literal));
  if (payload.variant !== 'composite') return inBrackets(`${head} RANGE`, attributes(payload));
  const attributesOf = inOrder(of(parts, 'typeAttribute')).map(
    (each) =>
      `${ownName(each.id)} ${[each.payload.type, ...given('COLLATE', each.payload.collation)].join(' ')}`,
  );
  return inBrackets(head, attributesOf);
}

function sequence({ id, payload }: Fact): string[] {
  const owner = payload.ownedBy;
  return clauses(`CREATE ${address(id)} AS ${payload.dataType}`, [
    `INCREMENT BY ${payload.increment}`,
    `MINVALUE ${payload.minValue}`,
    `MAXVALUE ${payload.maxValue}`,
    `START WITH ${payload.start}`,
    `CACHE ${payload.cache}`,
    ...(payload.cycle ? ['CYCLE'] : []),
    ...(isRecord(owner)
      ? [`OWNED BY ${displayName(String(owner.schema), String(owner.table), String(owner.column))}`]
      : []),
  ]);
}

function member({ id, payload }: Fact): string {
  const { object } = described(id);
  const columns = texts(payload.columns).map((name) => displayName(name));
  return (
    `ALTER PUBLICATION ${object.replace(': ', id.kind === 'publicationRel' ? ' ADD TABLE ' : ' ADD TABLES IN SCHEMA ')}` +
    `${columns.length === 0 ? '' : ` (${columns.join(', ')})`}${payload.where == null ? '' : ` WHERE ${payload.where}`};`
  );
}

/** Prints the attributes by name, for kinds without a form of their own. */
function plain(fact: Fact, other: Fact | undefined): string[] {
  const { id, payload } = fact;
  const { options: _options, conninfo, ...rest } = payload;
  return clauses(`CREATE ${address(id)}${options(fact, other)}`, [
    ...(conninfo == null ? [] : [`CONNECTION ${HIDDEN}`]),
    ...attributes(rest),
  ]);
}

function attributes(payload: Payload): string[] {
  return Object.entries(payload).flatMap(([name, value]) => {
    const nothing = !value || (Array.isArray(value) && value.length === 0);
    if (name.startsWith('_') || nothing) return [];
    const words = name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
    if (typeof value === 'string') return [`${words} = ${literal(value)}`];
    if (Array.isArray(value)) return [`${words} = ${value.map((each) => literal(String(each))).join(', ')}`];
    return [`${words} = ${typeof value === 'object' ? literal(JSON.stringify(value)) : value}`];
  });
}

/** Prints the options' names but no values: only the foreign-data wrapper knows which of them are secrets. */
function options({ payload }: Fact, other: Fact | undefined): string {
  const list = texts(payload.options).map(split);
  if (list.length === 0) return '';
  const then = new Map(texts(other?.payload.options).map(split));
  const shownOf = ([name, value]: [string, string]) =>
    `${displayName(name)} ${HIDDEN}${then.has(name) && then.get(name) !== value ? ` ${ANOTHER}` : ''}`;
  return ` OPTIONS (${list.map(shownOf).join(', ')})`;
}

function split(option: string): [string, string] {
  const at = option.indexOf('=');
  return [option.slice(0, at), option.slice(at + 1)];
}

function named(value: Value): string {
  return isRecord(value) ? displayName(String(value.schema), String(value.name)) : '';
}

function isRecord(value: Value): value is { [key: string]: Value } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
