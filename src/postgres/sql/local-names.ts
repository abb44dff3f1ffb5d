import type * as Tree from 'libpg-query';
import { beginsAsData, fieldsIf } from './classify-statement.ts';
import { renamed } from './normalize.ts';
import { likenessHash } from './statement-hashes.ts';
import { itemsOf, kindOf, type Node, nameOfParts, walkTree } from './tree.ts';

const MAY_DEFINE = /\b(?:temp|temporary|pg_temp|declare|prepare)\b/i;

/**
 * Names that mean something in one session only: cursors, prepared statements, and temporary relations with their indexes. Tools
 * make such names up, by the id of a thread or of an object, so that they differ in every run of the same command. Each name
 * stands for the definition that it was given, and a statement is compared by these definitions.
 */
export class LocalNames {
  /** The meaning of each name, by session. */
  readonly #bySession = new Map<number, Map<string, string>>();

  /** Tells by its words whether read() may return anything of a query or DML, so that it has to be parsed. */
  mayConcern(session: number, sql: string): boolean {
    return !beginsAsData(sql) || this.#bySession.has(session) || MAY_DEFINE.test(sql);
  }

  /** Takes every statement in its order; `node` is null if it could not be parsed. @returns undefined if the statement concerns no such name. */
  read(session: number, sql: string, node: Node | null): LocalReading | undefined {
    const known = this.#bySession.get(session) ?? new Map<string, string>();
    const defined = node && definedName(node, known);
    if (!defined && known.size === 0) return undefined;
    const names: string[] = [];
    const text = renamed(sql, (name) => {
      const meaning = name === defined ? 'itself' : known.get(name);
      if (meaning !== undefined && !names.includes(name)) names.push(name);
      return meaning;
    });
    if (names.length === 0) return undefined;
    const own = defined !== undefined || (node !== null && concernsOnly(node, known));
    if (defined) this.#bySession.set(session, known.set(defined, likenessHash(text)));
    const dropped = node && fieldsIf(node, 'DropStmt');
    if (dropped && own) for (const name of droppedNames(dropped)) known.delete(name);
    return { text, names, own };
  }
}

export interface LocalReading {
  /** The statement with the meanings of its local names in their place. */
  readonly text: string;
  /** These names, in the order in which they come. */
  readonly names: readonly string[];
  /** The statement defines, changes or runs nothing but what they name. */
  readonly own: boolean;
}

/** Returns the local name that a statement gives. */
function definedName(node: Node, known: ReadonlyMap<string, string>): string | undefined {
  const index = fieldsIf(node, 'IndexStmt');
  if (index) return known.has(index.relation?.relname ?? '') ? index.idxname : undefined;
  const name = fieldsIf(node, 'DeclareCursorStmt')?.portalname ?? fieldsIf(node, 'PrepareStmt')?.name;
  if (name !== undefined) return name;
  const made =
    fieldsIf(node, 'CreateStmt')?.relation ??
    fieldsIf(node, 'CreateTableAsStmt')?.into?.rel ??
    fieldsIf(node, 'SelectStmt')?.intoClause?.rel ??
    fieldsIf(node, 'ViewStmt')?.view ??
    fieldsIf(node, 'CreateSeqStmt')?.sequence;
  return made?.relpersistence === 't' || made?.schemaname === 'pg_temp' ? made.relname : undefined;
}

/** Kinds that concern the relations that they name, and nothing else. */
const CONCERNING: ReadonlySet<string> = new Set([
  ...['IndexStmt', 'AlterTableStmt', 'RenameStmt', 'TruncateStmt', 'LockStmt', 'VacuumStmt', 'ClusterStmt'],
  'ReindexStmt',
]);

function concernsOnly(node: Node, known: ReadonlyMap<string, string>): boolean {
  const executed = fieldsIf(node, 'ExecuteStmt');
  if (executed) return known.has(executed.name ?? '');
  const dropped = fieldsIf(node, 'DropStmt');
  const names = dropped ? droppedNames(dropped) : CONCERNING.has(kindOf(node)) ? relationsWithin(node) : [];
  return names.length > 0 && names.every((name) => known.has(name));
}

const droppedNames = ({ objects }: Tree.DropStmt) =>
  itemsOf<Tree.List>(objects, 'List').map(({ items }) => nameOfParts(items).name);

function relationsWithin(node: Node): string[] {
  const names: string[] = [];
  walkTree(node, (_key, fields) => {
    if ('relname' in fields && typeof fields.relname === 'string') names.push(fields.relname);
  });
  return names;
}

/** Returns the key by which such a statement is compared if it needs no comparison by its text; else undefined. */
export function likenessOf({ text, own }: LocalReading): string | undefined {
  return own || beginsAsData(text) ? likenessHash(text) : undefined;
}
