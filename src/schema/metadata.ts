import { displayName, literal } from '../postgres/sql/quote.ts';
import { described, texts } from './changes.ts';
import type { Fact, FactBase, StableId } from './pg-delta.ts';

/** Kind and name, as ALTER has them. */
export function address(id: StableId): string {
  const { kind, object } = described(id);
  return `${kind.toUpperCase().replaceAll('-', ' ')} ${object}`;
}

export const text = ({ payload }: Fact, attribute: string) => String(payload[attribute]);

export function ownerOf(base: FactBase, id: StableId): string | undefined {
  const owner = base.outgoingEdges(id).find(({ kind }) => kind === 'owner')?.to;
  return owner?.kind === 'role' ? owner.name : undefined;
}

/** Comments, labels and privileges, which are facts below their object. */
export function metadata(base: FactBase, fact: Fact): string[] {
  const { id } = fact;
  if (id.kind === 'comment') return [`COMMENT ON ${address(id.target)} IS ${literal(text(fact, 'text'))};`];
  if (id.kind === 'securityLabel')
    return [
      `SECURITY LABEL FOR ${displayName(id.provider)} ON ${address(id.target)} IS ${literal(text(fact, 'label'))};`,
    ];
  // The owner's privileges are implied.
  if (
    id.kind !== 'acl' ||
    (id.grantee === ownerOf(base, id.target) && texts(fact.payload.privileges).length > 0)
  )
    return [];
  return grants(fact, address(id.target), id.grantee, id.column);
}

function grants({ payload }: Fact, on: string, grantee: string, column?: string): string[] {
  const whom = grantee === 'PUBLIC' ? grantee : displayName(grantee);
  const grantable = texts(payload.grantable);
  const only = texts(payload.privileges).filter((privilege) => !grantable.includes(privilege));
  const list = (privileges: readonly string[]) =>
    privileges
      .map((privilege) => (column === undefined ? privilege : `${privilege} (${displayName(column)})`))
      .join(', ');
  if (only.length + grantable.length === 0) return [`REVOKE ALL ON ${on} FROM ${whom};`];
  return [
    ...(only.length === 0 ? [] : [`GRANT ${list(only)} ON ${on} TO ${whom};`]),
    ...(grantable.length === 0 ? [] : [`GRANT ${list(grantable)} ON ${on} TO ${whom} WITH GRANT OPTION;`]),
  ];
}

const DEFAULTS_FOR: Record<string, string> = {
  r: 'TABLES',
  S: 'SEQUENCES',
  f: 'FUNCTIONS',
  T: 'TYPES',
  n: 'SCHEMAS',
};

export function defaultPrivileges(fact: Fact): string[] {
  const { id } = fact;
  if (id.kind !== 'defaultPrivilege') return [];
  const where = id.schema === null ? '' : ` IN SCHEMA ${displayName(id.schema)}`;
  const head = `ALTER DEFAULT PRIVILEGES FOR ROLE ${displayName(id.role)}${where}`;
  return grants(fact, DEFAULTS_FOR[id.objtype] ?? id.objtype, id.grantee).map((grant) => `${head} ${grant}`);
}
