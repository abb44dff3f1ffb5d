import { formatCount, listed, plural } from '../../format.ts';
import type { Report, SchemaChange, SchemaSection } from '../../model/report.ts';
import { displayName, nameParts } from '../../postgres/sql/quote.ts';
import { schemaHtml } from '../html/objects-html.ts';
import { losingChanges } from '../phrases.ts';
import { tone } from '../text-layout.ts';
import {
  ARROW,
  AS_TEXT,
  type Block,
  type Cell,
  drawing,
  named,
  ON_PAGES,
  type Phrase,
  type PhrasePart,
  type Section,
  type Table,
} from '../view/section.ts';
import { alterationOf } from './schema-alterations.ts';

const LISTED = 15;
const LISTED_ASIDES = 5;
const LISTED_IN_WORDS = 2;
const SIGNS: Record<SchemaChange['verb'], string> = {
  create: '+',
  alter: '~',
  drop: '-',
  rename: '~',
  grant: '+',
  revoke: '-',
  comment: '~',
};

type Losing = ReturnType<typeof losingChanges>;

/** The changes in a line each; a page has whole objects and SQL instead. */
export function schemaView(report: Report): Section[] {
  const { schema } = report;
  const section = { id: 'schema', title: 'Schema', folds: 'in-comment', importance: 6 } as const;
  if (schema === null) return [{ ...section, summary: 'not compared', shownIn: AS_TEXT, blocks: [] }];
  const losing = losingChanges(report);
  const { changes, renames, leftovers, unmodeled, before, after } = schema;
  const isSame = changes.length + renames.length === 0 && before === after;
  const blocks: Block[] = [
    { ...changeTable(schema, losing), shownIn: AS_TEXT },
    { kind: 'diff', lines: changeLines(schema, losing), shownIn: ['markdown'] },
    {
      kind: 'items',
      shownIn: ['html'],
      items: renames.map(({ kind, from, to }) => ({
        text: [`rename ${kind} `, named(from), ' ', ARROW, ' ', named(to)],
      })),
    },
    {
      kind: 'items',
      listed: LISTED_ASIDES,
      items: leftovers.map(({ kind, object, preexisting }) => ({
        mark: preexisting ? 'notice' : 'warning',
        tag: 'leftover',
        text: [
          `${kind} `,
          named(object),
          preexisting ? ' existed before the command' : ' was left behind by the command',
        ],
      })),
    },
    {
      kind: 'items',
      listed: LISTED_ASIDES,
      items: unmodeled.map(({ kind, detail }) => ({
        mark: 'warning',
        tag: 'not compared',
        text: `${kind}: ${detail}`,
      })),
    },
    ...(changes.length === 0 ? [] : [drawing(() => schemaHtml(schema, losing.possible))]),
  ];
  const isEmpty = isSame && leftovers.length + unmodeled.length === 0;
  return [
    {
      ...section,
      summary: summaryOf(schema, losing),
      ...(isEmpty ? { shownIn: [...AS_TEXT, 'html'] } : {}),
      blocks,
    },
  ];
}

function summaryOf(schema: SchemaSection, { certain, possible }: Losing): string {
  const { changes, renames, unmodeled } = schema;
  if (changes.length === 0 && renames.length > 0) return plural(renames.length, 'rename');
  if (changes.length === 0 && schema.before === schema.after) return 'no change';
  if (changes.length === 0)
    return unmodeled.length === 0
      ? 'no change found, although the fingerprints differ'
      : listed(
          unmodeled.map(({ kind, detail }) => `${kind} ${detail}`),
          { atMost: LISTED_IN_WORDS },
        );
  const verbs = [...new Set(changes.map((change) => change.verb))].map(
    (verb) => `${formatCount(changes.filter((change) => change.verb === verb).length)} ${verb}`,
  );
  const losses = [
    ...(certain.length > 0 ? [`${plural(certain.length, 'LOSES', 'LOSE')} DATA`] : []),
    ...(possible.length > 0 ? [`${formatCount(possible.length)} MAY LOSE DATA`] : []),
  ];
  const loss = losses.length === 0 ? ', no data loss' : `; ${losses.join(', ')}`;
  const kinds = verbs.length > 1 || changes.length > LISTED ? ` (${verbs.join(', ')})` : '';
  return `${plural(changes.length, 'change')}${kinds}${loss}`;
}

/** A rename has one row, with both names. */
function changeTable(schema: SchemaSection, losing: Losing): Table {
  const others = mostTelling(ownChanges(schema), LISTED);
  return {
    kind: 'table',
    listed: LISTED,
    more: `changes${hiddenLoss(others.slice(LISTED), losing)}`,
    columns: [{ title: '' }, { title: '' }, { title: '' }, { title: '' }],
    rows: [
      ...others.map((change) => changeRow(schema, change, losing)),
      ...schema.renames.map(({ kind, from, to }): Cell[] => [
        '~ rename',
        kind,
        [named(from)],
        [ARROW, ' ', named(to)],
      ]),
    ],
  };
}

function changeRow(schema: SchemaSection, change: SchemaChange, losing: Losing): Cell[] {
  const { verb, kind, object, dataLoss } = change;
  return [
    [tone(dataLoss || verb === 'drop' ? 'bad' : 'plain', `${SIGNS[verb]} ${verb}`)],
    kind,
    [named(object)],
    [alterationOf(schema, change), ...(dataLoss ? [' ', tone('bad', lossOf(change, losing))] : [])],
  ];
}

/** The rows of the table in the colours of a diff, where `!` marks what changes and stays. */
function changeLines(schema: SchemaSection, losing: Losing): string[] {
  return [
    ...mostTelling(ownChanges(schema), LISTED).map((change) => {
      const { verb, kind, object, dataLoss } = change;
      const what = alterationOf(schema, change);
      const loss = dataLoss ? `   ${lossOf(change, losing)}` : '';
      return `${SIGNS[verb].replace('~', '!')} ${verb} ${kind} ${object}${what === '' ? '' : `: ${what}`}${loss}`;
    }),
    ...schema.renames.map(({ kind, from, to }) => `! rename ${kind} ${from} -> ${to}`),
  ];
}

function lossOf(change: SchemaChange, { possible }: Losing): string {
  return includes(possible, change) ? 'MAY LOSE DATA' : 'LOSES DATA';
}

/** Tells if a change is one of these; several changes of one object are shown as one. */
function includes(changes: readonly SchemaChange[], { verb, object }: SchemaChange): boolean {
  return changes.some((each) => each.verb === verb && each.object === object);
}

/** Changes without those that `renames` has; those of one column are one change. */
function ownChanges({ changes, renames }: SchemaSection): SchemaChange[] {
  const merged = new Map<string, SchemaChange>();
  const isListed = ({ verb, object }: SchemaChange) =>
    verb === 'rename' && renames.some(({ to }) => to === object);
  for (const change of underLastNames(changes.filter((each) => !isListed(each)))) {
    const { verb, kind, object, sql, dataLoss } = change;
    const key = JSON.stringify([verb, kind, object]);
    const known = merged.get(key);
    merged.set(
      key,
      known ? { ...known, sql: `${known.sql};\n${sql}`, dataLoss: known.dataLoss || dataLoss } : change,
    );
  }
  return [...merged.values()];
}

const RENAMED = / RENAME (?:COLUMN )?("(?:[^"]|"")+") TO "(?:[^"]|"")+"$/;

/** An object that has the former name of a renamed one is made under another name, and renamed at last: that is one change. */
function underLastNames(changes: readonly SchemaChange[]): SchemaChange[] {
  const created = new Set(changes.filter(({ verb }) => verb === 'create').map(({ object }) => object));
  const lastNames = new Map<string, string>();
  const others = changes.filter(({ verb, object, sql }) => {
    const first = (verb === 'rename' && RENAMED.exec(sql)?.[1]) || undefined;
    if (first === undefined) return true;
    const made = displayName(...nameParts(object).slice(0, -1), ...nameParts(first));
    if (created.has(made)) lastNames.set(made, object);
    return !created.has(made);
  });
  return others.map((change) => ({ ...change, object: lastNames.get(change.object) ?? change.object }));
}

/** Puts destructive changes first if the list has to be cut. */
function mostTelling(changes: SchemaChange[], most: number): SchemaChange[] {
  const weight = (change: SchemaChange) => (change.dataLoss ? 0 : change.verb === 'drop' ? 1 : 2);
  return changes.length <= most ? changes : changes.toSorted((one, other) => weight(one) - weight(other));
}

function hiddenLoss(hidden: readonly SchemaChange[], { certain, possible }: Losing): string {
  const losing = hidden.filter((change) => includes(certain, change)).length;
  const perhaps = hidden.filter((change) => includes(possible, change)).length;
  if (losing > 0) return `; ${formatCount(losing)} of them ${losing === 1 ? 'loses' : 'lose'} data`;
  return perhaps > 0 ? `; ${formatCount(perhaps)} of them may lose data` : '';
}

const LISTED_BRIEFLY = 4;

/** The first changes in a sentence, those that lose data before others. @param briefly shortens the name of an object. */
export function schemaPhrase(report: Report, briefly: (name: string) => string): Phrase {
  const { schema } = report;
  if (schema === null) return 'not compared';
  const { renames } = schema;
  const own = mostTelling(ownChanges(schema), LISTED_BRIEFLY);
  if (own.length + renames.length === 0) return summaryOf(schema, losingChanges(report));
  const all: PhrasePart[][] = [
    ...own.map((change): PhrasePart[] => {
      const what = alterationOf(schema, change);
      const name = named(briefly(change.object));
      return what === ''
        ? [`${SIGNS[change.verb]} ${prefixOf(change)}`, name]
        : [`${SIGNS[change.verb]} `, name, `: ${what}`];
    }),
    ...renames.map(({ from, to }): PhrasePart[] => [
      '~ ',
      named(briefly(from)),
      ' ',
      ARROW,
      ' ',
      named(briefly(to)),
    ]),
  ];
  const others = all.length - LISTED_BRIEFLY;
  const shown = all.slice(0, LISTED_BRIEFLY).flatMap((parts, at) => [...(at === 0 ? [] : [', ']), ...parts]);
  return [...shown, ...(others > 0 ? [`, and ${formatCount(others)} more`] : [])];
}

/** A change of an object's privileges or comment must not look like one of the object. */
function prefixOf({ verb, kind }: SchemaChange): string {
  if (verb === 'grant' || verb === 'revoke' || verb === 'comment') return `${verb} on ${kind} `;
  return kind === 'column' ? '' : `${kind} `;
}

/** Says of redacted SQL why it does not run. */
export function hiddenLiterals(text: string | null, redacted: boolean): Block[] {
  if (!redacted || !text?.includes('?')) return [];
  const words =
    'Each ? stands for a hidden literal, so that this SQL does not run as shown: safemigrate show has all of it.';
  return [{ kind: 'paragraph', text: words, shownIn: ON_PAGES }];
}

/** How to undo the migration later, as far as that is possible. */
export function rollbackView({ schema, run }: Report): Section[] {
  if (schema === null || schema.changes.length + schema.renames.length === 0) return [];
  const { rollbackSql, rollbackLoses } = schema;
  const count = rollbackSql === null ? undefined : countStatements(rollbackSql);
  return [
    {
      id: 'rollback-sql',
      title: 'Rollback SQL',
      summary:
        rollbackSql === null
          ? 'none could be generated'
          : `${count === undefined ? '' : `${plural(count, 'statement')}, `}in the JSON report (schema.rollbackSql)`,
      folds: 'in-comment',
      importance: 3,
      blocks: [
        {
          kind: 'items',
          items: rollbackLoses.map((loss) => ({ mark: 'warning', tag: 'cannot restore', text: loss })),
        },
        ...hiddenLiterals(rollbackSql, run.redacted === true),
        { kind: 'script', sql: rollbackSql ?? '', shownIn: ON_PAGES },
      ],
    },
  ];
}

const TOKENS =
  /[eE]'(?:[^'\\]|\\.)*'|'[^']*'|"[^"]*"|\$(\w*)\$[\s\S]*?\$\1\$|--.*|\/\*[\s\S]*?\*\/|[^\s;]|;/g;

/** Counts the statements in SQL. @returns undefined if a semicolon may not end a statement: in the body of an SQL-standard function. */
export function countStatements(sql: string): number | undefined {
  if (/\bBEGIN\s+ATOMIC\b/i.test(sql)) return undefined;
  let count = 0;
  let begun = false;
  for (const [token] of sql.matchAll(TOKENS)) {
    if (token === ';') {
      if (begun) count += 1;
      begun = false;
    } else if (!token.startsWith('--') && !token.startsWith('/*')) begun = true;
  }
  return begun ? count + 1 : count;
}
