import { STATEMENT_KINDS } from './statement-kinds.ts';
import type { StatementProperties } from './statement-properties.ts';

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
