import { formatDuration, plural } from '../../format.ts';
import type { ApplySection, Report } from '../../model/report.ts';
import { duringWords } from '../guardrail-phrases.ts';
import { applyWords, commandWords } from '../phrases.ts';
import { cutText, Html, html } from './escape-html.ts';
import { stateHeader } from './page-state.ts';
import { bar, facts, listHtml, tableHtml } from './parts-html.ts';

/** More of them make a page that nobody can open: the JSON report has them all. */
const LISTED = 1_000;
const SQL_CHARACTERS = 300;
const WAY_BACK_CHARACTERS = 100_000;

/** What became of `--apply`: the state that the target is in comes before the rehearsal. */
export function applyHtml({ apply, target }: Report): Html | undefined {
  if (apply === null) return undefined;
  const { outcome, reasons } = apply;
  const place = outcome === 'partly' ? ` on ${target.host}:${target.port}` : '';
  return html`
<section aria-label="Apply">${stateHeader(KINDS[outcome], applyWords(outcome, target.database + place), reasons)}
${factsOf(apply)}${[failures(apply), effects(apply), onTheWay(apply), differences(apply), times(apply), wayBack(apply)].filter((part) => part !== undefined)}
</section>`;
}

const KINDS = { applied: 'good', refused: 'bad', failed: 'bad', partly: 'alarm' } as const;

function factsOf({ command, forced, receipt, rehearsal, schemaEqual, leftovers }: ApplySection) {
  const rows: [string, string][] = [['Rehearsed by', `run ${rehearsal}`]];
  if (receipt !== null)
    rows.push([
      'Receipt',
      `instead of a rehearsal, ${formatDuration(receipt.ageMs)} old, ${receipt.signed ? 'signed' : 'not signed, only a checksum'}`,
    ]);
  if (forced !== null) rows.push(['Forced', `the rehearsal had not passed: ${forced}`]);
  if (command !== null) rows.push(['Command', commandWords(command)]);
  if (schemaEqual !== null)
    rows.push(['Schema', schemaEqual ? 'the one that was rehearsed' : 'not the one that was rehearsed']);
  if (leftovers.length > 0)
    rows.push(['Left behind', leftovers.map(({ kind, object }) => `${kind} ${object}`).join('; ')]);
  return facts(rows);
}

function failures({ statements }: ApplySection): Html | undefined {
  const failed = statements.flatMap(({ index, sql, error }) =>
    error === null ? [] : [{ index, sql, error }],
  );
  if (failed.length === 0) return undefined;
  return html`<h3>Failed on the target</h3>${tableHtml(
    ['#', 'Statement', 'Error'],
    failed
      .slice(0, LISTED)
      .map(({ index, sql, error }) => [
        html`${index}`,
        sqlOf(sql),
        html`${error.message} (SQLSTATE ${error.sqlstate})`,
      ]),
  )}${more(failed.length)}`;
}

const EFFECTS = {
  unknown: html`<span class="tag bad">may have been committed</span>`,
  committed: html`<span class="tag good">committed</span>`,
  'rolled back': html`<span class="tag">not committed</span>`,
};

/** Where all is well it need not be read line by line. */
function effects({ outcome, committed, rolledBack }: ApplySection): Html | undefined {
  const all = [...committed, ...rolledBack].sort((one, other) => one.statement - other.statement);
  if (all.length === 0) return undefined;
  const rows = tableHtml(
    ['#', 'What became of it', 'Statement'],
    all.slice(0, LISTED).map((each) => [html`${each.statement}`, EFFECTS[each.outcome], sqlOf(each.sql)]),
  );
  const title = `What stays: ${plural(committed.length, 'statement')} of ${all.length} that wrote`;
  return html`<details${outcome === 'applied' ? '' : OPEN}><summary>${title}</summary>${rows}${more(all.length)}</details>`;
}

const OPEN = new Html(' open');

function onTheWay({ during }: ApplySection): Html | undefined {
  const words = during === null ? [] : duringWords(during, (text) => cutText(text, SQL_CHARACTERS));
  return words.length === 0 ? undefined : html`<h3>On the way</h3>${listHtml(words)}`;
}

function differences({ differences: found }: ApplySection): Html | undefined {
  return found.length === 0 ? undefined : html`<h3>Otherwise than rehearsed</h3>${listHtml(found)}`;
}

/** Side by side, the slowest on the target first. */
function times({ comparedTimes }: ApplySection): Html | undefined {
  if (comparedTimes.length === 0) return undefined;
  const sum = (pick: (each: (typeof comparedTimes)[number]) => number) =>
    formatDuration(comparedTimes.reduce((total, each) => total + pick(each), 0));
  const longest = Math.max(...comparedTimes.flatMap((each) => [each.rehearsedMs, each.appliedMs]));
  const time = (ms: number, kind: '' | 'before') => html`${bar(ms, longest, kind)} ${formatDuration(ms)}`;
  return html`<h3>Times</h3>
<p>${plural(comparedTimes.length, 'statement')}: ${sum(({ rehearsedMs }) => rehearsedMs)} rehearsed, ${sum(({ appliedMs }) => appliedMs)} on the target.</p>
${tableHtml(
  ['#', 'Rehearsed', 'On the target', 'Statement'],
  comparedTimes
    .toSorted((one, other) => other.appliedMs - one.appliedMs)
    .slice(0, LISTED)
    .map(({ applied, rehearsedMs, appliedMs, sql }) => [
      html`${applied}`,
      time(rehearsedMs, 'before'),
      time(appliedMs, ''),
      sqlOf(sql),
    ]),
)}${more(comparedTimes.length)}`;
}

function wayBack({ wayBack: sql }: ApplySection): Html | undefined {
  if (sql === null) return undefined;
  return html`<details open><summary>Way back: SQL from what the target is now to the schema before</summary><pre>${cutText(sql, WAY_BACK_CHARACTERS)}</pre></details>`;
}

function sqlOf(sql: string): Html {
  return html`<code>${cutText(sql, SQL_CHARACTERS)}</code>`;
}

function more(count: number): Html | undefined {
  return count <= LISTED
    ? undefined
    : html`<p class="dim">and ${count - LISTED} more, see the JSON report</p>`;
}
