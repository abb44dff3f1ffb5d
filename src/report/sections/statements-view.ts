import { formatBytes, formatCount, formatDuration, plural } from '../../format.ts';
import { statementTime, timeWords } from '../../hazards/evidence.ts';
import { longestLocks, strongestLock } from '../../hazards/held-locks.ts';
import { sentStatements } from '../../model/repeated.ts';
import type { Report, StatementSection } from '../../model/report.ts';
import { cutText, type Html, html } from '../html/escape-html.ts';
import { timeline } from '../html/timeline-html.ts';
import { repetitionWords } from '../phrases.ts';
import { placeWords } from '../place.ts';
import { tone } from '../text-layout.ts';
import {
  AS_TEXT,
  type Block,
  type Cell,
  drawing,
  type Item,
  type Note,
  named,
  type Phrase,
  type PhrasePart,
  type Section,
  sql,
  type Table,
} from '../view/section.ts';

const LISTED_ERRORS = 3;
const LISTED_LOCKS = 10;
const SLOWEST = 10;
/** Faster statements are not worth a line in a list of the slowest. */
const NOTICEABLE_MS = 1;

/** Sessions, transactions, statements and locks on an axis of time. */
export function timelineView(run: Pick<Report, 'statements' | 'transactions'>): Section[] {
  if (run.statements.length === 0) return [];
  const blocks = [drawing(() => timeline(run))];
  return [{ id: 'timeline', title: 'Timeline', folds: 'never', importance: 4, blocks }];
}

/** The slowest statements; a page has them all. The schema tells which locks matter. */
export function statementsView({ statements, schema }: Pick<Report, 'statements' | 'schema'>): Section[] {
  if (statements.length === 0) return [];
  const failed = statements.filter(({ error }) => error !== null).length;
  const total = statements.reduce((sum, { durationMs }) => sum + durationMs, 0);
  const count = plural(sentStatements(statements), 'statement');
  const slowest = statements.toSorted((one, other) => expectedMs(other) - expectedMs(one));
  return [
    {
      id: 'statements',
      title: 'Statements',
      summary: `${count}, ${formatDuration(total)} in the server${failed === 0 ? '' : `, ${formatCount(failed)} FAILED`}`,
      folds: 'in-comment',
      importance: 4,
      blocks: [
        { ...slowestTable(slowest), shownIn: AS_TEXT },
        { ...wholeTable(slowest), shownIn: ['markdown'] },
        ...lockBlocks({ statements, schema }),
        drawing(() => sortableTable(statements)),
      ],
    },
  ];
}

function slowestTable(slowest: readonly StatementSection[]): Table {
  const noticed = slowest
    .slice(0, SLOWEST)
    .filter(({ durationMs }, at) => at === 0 || durationMs >= NOTICEABLE_MS);
  return {
    kind: 'table',
    listed: noticed.length,
    columns: [{ title: '', align: 'right' }, { title: '' }],
    rows: noticed.map((statement) => [
      formatDuration(statement.durationMs),
      [`${statement.index}. `, ...statementPhrase(statement)],
    ]),
  };
}

function wholeTable(slowest: readonly StatementSection[]): Table {
  return {
    kind: 'table',
    columns: [
      { title: '#', align: 'right' },
      { title: 'time', align: 'right' },
      { title: 'strongest lock' },
      { title: 'statement' },
    ],
    rows: slowest.map((statement): Cell[] => [
      String(statement.index),
      formatDuration(statement.durationMs),
      lockPhrase(statement),
      statementPhrase(statement),
    ]),
  };
}

function statementPhrase(statement: StatementSection): PhrasePart[] {
  const facts = factsOf(statement);
  return [sql(statement.sql), tone('dim', facts.length === 0 ? '' : ` [${facts.join(', ')}]`)];
}

function lockPhrase(statement: StatementSection): Phrase {
  const lock = strongestLock(statement);
  if (!lock) return '';
  const held = lock.heldMs === null ? '' : ` for ${timeWords(lock.heldMs, lock.atProductionSize)}`;
  return [`${lock.mode} on `, named(lock.relation), held];
}

function expectedMs({ durationMs, atProductionSize }: StatementSection): number {
  return atProductionSize?.ms ?? durationMs;
}

function factsOf(statement: StatementSection): string[] {
  const { rows, walBytes, exactness } = statement;
  return [
    ...furtherFacts(statement),
    ...(rows === null ? [] : [plural(rows, 'row')]),
    ...(walBytes === null ? [] : [`${formatBytes(walBytes)} WAL`]),
    ...(exactness === 'exact' ? [] : [`locks ${EXACTNESS[exactness]}`]),
  ];
}

/** Facts that have no column of their own on a page. */
function furtherFacts(statement: StatementSection): string[] {
  const {
    atProductionSize,
    repeated,
    rewrote,
    rolledBack,
    explicit,
    transaction,
    file,
    line = null,
  } = statement;
  return [
    ...(file !== undefined ? [placeWords({ file, line })] : []),
    ...(atProductionSize ? [statementTime(statement)] : []),
    ...(repeated ? [repetitionWords(repeated)] : []),
    ...(rewrote.length === 0 ? [] : [`rewrote ${rewrote.join(', ')}`]),
    ...(rolledBack ? ['rolled back'] : []),
    ...(explicit && !repeated ? [`transaction ${formatCount(transaction)}`] : []),
  ];
}

const EXACTNESS = { group: 'of its group', sampled: 'sampled', unknown: 'unknown' } as const;

/** The locks that block most; a page has those of each statement instead. */
function lockBlocks(sent: Pick<Report, 'statements' | 'schema'>): Block[] {
  const locks = longestLocks(sent.statements, sent.schema);
  if (locks.length === 0) return [];
  return [
    { kind: 'paragraph', text: 'Strongest locks:', shownIn: AS_TEXT },
    {
      kind: 'table',
      shownIn: AS_TEXT,
      listed: LISTED_LOCKS,
      columns: [{ title: '' }, { title: '' }, { title: '' }, { title: '' }],
      rows: locks.map(({ relation, mode, heldMs, atProductionSize, blocks }) => [
        [named(relation)],
        [tone(blocks.includes('reads') ? 'warning' : 'plain', mode)],
        heldMs === null ? 'held ?' : `held ${timeWords(heldMs, atProductionSize)}`,
        `blocks ${blocks.join(', ')}`,
      ]),
    },
  ];
}

/** Statements that failed: the reason if the command failed, a side note if it did not (tools try things out). */
export function failuresView({ statements }: Pick<Report, 'statements'>): Section[] {
  const items = failureItems(statements);
  if (items.length === 0) return [];
  return [
    {
      id: 'failures',
      title: 'Failed statements',
      summary: `${formatCount(items.length)} of ${formatCount(sentStatements(statements))}`,
      folds: 'never',
      importance: 9,
      blocks: [{ kind: 'items', items, listed: LISTED_ERRORS }],
    },
  ];
}

/** Statements that failed, with the server's words about it. */
export function failureItems(
  statements: readonly Pick<StatementSection, 'index' | 'sql' | 'error' | 'file' | 'line'>[],
): Item[] {
  return statements.flatMap(({ index, sql: text, error, file, line = null }): Item[] => {
    if (error === null) return [];
    const { message, sqlstate, detail, hint, position } = error;
    const notes: Note[] = [
      ...(file === undefined ? [] : [{ text: [named(placeWords({ file, line }))] }]),
      { text: [tone('bad', message), ` (SQLSTATE ${sqlstate})`] },
      ...(detail === null ? [] : [{ label: 'Detail', text: detail }]),
      ...(hint === null ? [] : [{ label: 'Hint', text: hint }]),
      ...(position === null ? [] : [{ text: [tone('dim', nearby(text, position))] }]),
    ];
    return [{ mark: 'bad', text: [`${index}. `, sql(text)], notes }];
  });
}

/** PostgreSQL counts the position in characters, from 1. */
function nearby(text: string, position: number): string {
  const excerpt = Array.from(text.slice(0, position * 2 + 80))
    .slice(position - 1, position + 39)
    .join('');
  return `at character ${formatCount(position)}: ${excerpt}`;
}

/** All statements in a table that can be sorted and searched; without scripts it is a plain table in the order of the run. */
function sortableTable(statements: readonly StatementSection[]): Html {
  return html`
<div class="tools"><label>Search <input type="search" id="search" aria-controls="statement-table"></label><span class="dim" id="found" aria-live="polite">${plural(sentStatements(statements), 'statement')}</span></div>
<div class="wide"><table id="statement-table"><thead><tr>
${['#', 'Time', 'Rows', 'Statement', 'Strongest lock', 'Held', 'WAL'].map((title) => html`<th scope="col"><button type="button">${title}</button></th>`)}
</tr></thead><tbody>
${statements.map(rowHtml)}
</tbody></table></div>`;
}

function rowHtml(statement: StatementSection): Html {
  const { index, durationMs, rows, error, walBytes, exactness } = statement;
  const lock = strongestLock(statement);
  const held = lock?.heldMs ?? null;
  const failure = error && html`<div><strong>${error.message}</strong> (SQLSTATE ${error.sqlstate})</div>`;
  const known = exactness === 'exact' || exactness === 'group' ? '' : ` (${exactness})`;
  const facts = furtherFacts(statement);
  const further = facts.length > 0 && html`<div class="dim">${facts.join(', ')}</div>`;
  const number = (value: number | null, shown: string | null) =>
    html`<td class="num" data-value="${value ?? -1}">${shown}</td>`;
  return html`<tr id="statement-${index}"${error !== null && html` class="failed"`}>${number(index, String(index))}${number(durationMs, formatDuration(durationMs))}${number(rows, rows === null ? '' : String(rows))}<td class="sql">${cutText(statement.sql)}${further}${failure}</td><td>${lock ? html`${lock.mode} <span class="dim">on ${lock.relation}${known}</span>` : html`<span class="dim">${exactness === 'unknown' ? 'unknown' : ''}</span>`}</td>${number(held, held === null ? '' : timeWords(held, lock?.atProductionSize))}${number(walBytes, walBytes === null ? '' : formatBytes(walBytes))}</tr>
`;
}
