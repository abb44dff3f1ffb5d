import { listed } from '../../format.ts';
import type { ChangedDefinition } from '../../model/definition-kinds.ts';
import { bare, displayName } from '../../postgres/sql/quote.ts';
import { isNamed } from '../explained-probes.ts';
import type { HazardContext } from '../hazard-context.ts';
import { type Finding, sqlAdvice } from '../hazard-definition.ts';
import { ofKind } from './redefined.ts';

/** The schema of an extension, and by role the search paths that do not have it; that of the database is named ''. */
interface Placed {
  readonly schema: string;
  readonly unreached: Readonly<Record<string, string>>;
}

/** Extensions in another schema than before, which is not in a search path that had the former one. */
export function movedExtensions(context: HazardContext): Finding[] {
  return ofKind(context, 'extension').flatMap((definition) => moved(context, definition));
}

function moved(context: HazardContext, { relation: extension, before, after }: ChangedDefinition): Finding[] {
  if (before === null || after === null) return [];
  const [then, now] = [JSON.parse(before) as Placed, JSON.parse(after) as Placed];
  const [from, to] = [displayName(then.schema), displayName(now.schema)];
  const lost = Object.entries(now.unreached).filter(([role]) => then.unreached[role] === undefined);
  const isWithSchema = context.facts.schema?.renames.some((each) => each.kind === 'schema' && each.to === to);
  if (from === to || lost.length === 0 || isWithSchema) return [];
  return [
    {
      statement:
        context.facts.statements.findLast(
          ({ error, sql }) => error === null && /\bextension\b/i.test(sql) && isNamed(sql, bare(extension)),
        )?.index ?? null,
      relation: null,
      severity: 'warning',
      message: `the extension ${extension} moves from ${from} to ${to}, where code that names its functions, types or operators without a schema does not look`,
      evidence: `search_path ${listed(lost.map(([role, path]) => `of ${role === '' ? 'the database' : displayName(role)}: ${path}`))}`,
      advice: sqlAdvice(
        'Before it moves, so that sessions find its names in both schemas:',
        ...lost.map(([role, path]) =>
          role === ''
            ? `ALTER DATABASE … SET search_path = ${path}, ${to}`
            : `ALTER ROLE ${displayName(role)} SET search_path = ${path}, ${to}`,
        ),
      ),
    },
  ];
}
