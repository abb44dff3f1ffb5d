import type * as Tree from 'libpg-query';
import { beginsAsData, fieldsIf } from './classify-statement.ts';
import { renamed } from './normalize.ts';
import { SessionStates } from './session-states.ts';
import { likenessHash } from './statement-hashes.ts';
import { itemsOf, kindOf, type Node, nameOfParts, walkTree } from './tree.ts';

const MAY_DEFINE = /\b(?:temp|temporary|pg_temp|declare|prepare)\b/i;

/** A name that means something in its session only. */
interface LocalName {
  /** Hash of its definition. */
  readonly meaning: string;
  readonly of: 'relation' | 'cursor' | 'prepared statement';
  readonly endsAtCommit: boolean;
}

type Names = ReadonlyMap<string, LocalName>;

/**
 * Names that mean something in one session only: cursors, prepared statements, and temporary relations with their indexes. Tools
 * make such names up, by the id of a thread or of an object, so that they differ in every run of the same command. Each name
 * stands for the definition that it was given, and a statement is compared by these definitions. A name ends when the server
 * ends it: after that, a permanent table may have it.
 */
export class LocalNames {
  readonly #states = new SessionStates<Names>({
    initial: new Map(),
    committed: (now) => without(now, ({ endsAtCommit }) => endsAtCommit),
    rolledBack: (now, before) =>
      new Map([...before, ...[...now].filter(([, name]) => name.of === 'prepared statement')]),
  });

  /** Tells by its words whether read() may return anything of a query or DML, so that it has to be parsed. */
  mayConcern(session: number, sql: string): boolean {
    return !beginsAsData(sql) || this.#states.of(session).size > 0 || MAY_DEFINE.test(sql);
  }

  /** Takes every statement in its order; `node` is null if it could not be parsed. @returns undefined if the statement concerns no such name. */
  read(session: number, sql: string, node: Node | null): LocalReading | undefined {
    if (node) this.#states.follow(session, node);
    const names = this.#states.of(session);
    const defined = node && definedBy(node, names);
    if (!defined && names.size === 0) return undefined;
    const mentioned: string[] = [];
    const text = renamed(sql, (name) => {
      const meaning = name === defined?.name ? 'itself' : names.get(name)?.meaning;
      if (meaning !== undefined && !mentioned.includes(name)) mentioned.push(name);
      return meaning;
    });
    this.#states.set(session, namesAfter(names, node));
    if (mentioned.length === 0) return undefined;
    if (defined) {
      const { name, ...rest } = defined;
      this.#states.set(session, new Map([...names, [name, { ...rest, meaning: likenessHash(text) }]]));
    }
    const own = defined != null || (node !== null && concernsOnly(node, names));
    return { text, names: mentioned, own };
  }
}

/** Returns the names that remain after DROP and DISCARD. */
function namesAfter(names: Names, node: Node | null): Names {
  const dropped = node && fieldsIf(node, 'DropStmt');
  if (dropped && concernsOnly(node, names)) {
    const gone = droppedNames(dropped);
    return without(names, (_, name) => gone.includes(name));
  }
  const target = node && fieldsIf(node, 'DiscardStmt')?.target;
  if (target === 'DISCARD_ALL') return new Map();
  return target === 'DISCARD_TEMP' ? without(names, (each) => each.of === 'relation') : names;
}

function without(names: Names, ends: (each: LocalName, name: string) => boolean): Names {
  return new Map([...names].filter(([name, each]) => !ends(each, name)));
}

export interface LocalReading {
  /** The statement with the meanings of its local names in their place. */
  readonly text: string;
  /** These names, in the order in which they come. */
  readonly names: readonly string[];
  /** The statement defines, changes or runs nothing but what they name. */
  readonly own: boolean;
}

const HOLD = 0x0020;

/** Returns the local name that a statement gives. */
function definedBy(node: Node, names: Names): (Omit<LocalName, 'meaning'> & { name: string }) | undefined {
  const index = fieldsIf(node, 'IndexStmt');
  if (index) {
    const table = names.get(index.relation?.relname ?? '');
    return table && index.idxname !== undefined ? { ...table, name: index.idxname } : undefined;
  }
  const cursor = fieldsIf(node, 'DeclareCursorStmt');
  if (cursor)
    return {
      name: cursor.portalname ?? '',
      of: 'cursor',
      endsAtCommit: ((cursor.options ?? 0) & HOLD) === 0,
    };
  const prepared = fieldsIf(node, 'PrepareStmt');
  if (prepared) return { name: prepared.name ?? '', of: 'prepared statement', endsAtCommit: false };
  const into = fieldsIf(node, 'CreateTableAsStmt')?.into ?? fieldsIf(node, 'SelectStmt')?.intoClause;
  const table = fieldsIf(node, 'CreateStmt');
  const made =
    into?.rel ??
    table?.relation ??
    fieldsIf(node, 'ViewStmt')?.view ??
    fieldsIf(node, 'CreateSeqStmt')?.sequence;
  if (made?.relpersistence !== 't' && made?.schemaname !== 'pg_temp') return undefined;
  const endsAtCommit = (into?.onCommit ?? table?.oncommit) === 'ONCOMMIT_DROP';
  return { name: made.relname ?? '', of: 'relation', endsAtCommit };
}

/** Kinds that concern the relations that they name, and nothing else. */
const CONCERNING: ReadonlySet<string> = new Set([
  ...['IndexStmt', 'AlterTableStmt', 'RenameStmt', 'TruncateStmt', 'LockStmt', 'VacuumStmt', 'ClusterStmt'],
  'ReindexStmt',
]);

function concernsOnly(node: Node, known: Names): boolean {
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
