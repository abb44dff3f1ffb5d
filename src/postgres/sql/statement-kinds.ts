import { CLUSTER_KINDS } from './kinds/cluster-kinds.ts';
import { OBJECT_KINDS } from './kinds/object-kinds.ts';
import { RELATION_KINDS } from './kinds/relation-kinds.ts';
import { ROW_KINDS } from './kinds/row-kinds.ts';
import { SESSION_KINDS } from './kinds/session-kinds.ts';
import { STORAGE_KINDS } from './kinds/storage-kinds.ts';
import type {
  ProgressView,
  StatementKind,
  StatementProperties,
  StatementTable,
} from './statement-properties.ts';

/**
 * The one table of PostgreSQL's statements: every kind of node that the grammar makes of a statement, with the properties
 * that the program decides by. `classify-statement.ts` answers the questions.
 */
export const STATEMENT_KINDS = {
  ...ROW_KINDS,
  ...SESSION_KINDS,
  ...STORAGE_KINDS,
  ...RELATION_KINDS,
  ...OBJECT_KINDS,
  ...CLUSTER_KINDS,
} satisfies StatementTable<StatementKind>;

/** The views in which statements show how far they are, each once. */
export const PROGRESS_VIEWS: readonly ProgressView[] = [
  ...new Set(
    Object.values<StatementProperties<never>>(STATEMENT_KINDS).flatMap(({ progress = [] }) => progress),
  ),
];

/** Command tags of the statements that act beyond their database, in roles, databases, the server or other servers. */
const TAGS_BEYOND: ReadonlySet<string> = new Set(
  Object.values<StatementProperties<never>>(STATEMENT_KINDS)
    .filter(({ effect, reach }) => effect === 'cluster' || (typeof reach === 'object' && 'beyond' in reach))
    .flatMap(({ name, tags }) => tags ?? [name.replace(/ ….*/, '')]),
);

/** Tells if the server's command tag belongs to a statement that acts beyond its database. */
export function actsBeyond(tag: string): boolean {
  return TAGS_BEYOND.has(tag);
}
