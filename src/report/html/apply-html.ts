import { formatDuration, plural } from '../../format.ts';
import type { ApplySection, Report } from '../../model/report.ts';
import { duringWords } from '../guardrail-phrases.ts';
import { applyWords, commandWords, isAppliedInPart } from '../phrases.ts';
import { cutText, Html, html } from './escape-html.ts';
import { stateHeader } from './page-state.ts';
import { bar, facts, listHtml, tableHtml } from './parts-html.ts';

/** Longer tables would make a page that no browser can open; the JSON report has all rows. */
const LISTED = 1_000;
const SQL_CHARACTERS = 300;
const ROLLBACK_CHARACTERS = 100_000;

/** The outcome of `--apply`; the state of the target comes before the rehearsal. */
export function applyHtml(report: Report): Html | undefined {
  const { apply, target } = report;
  if (apply === null) return undefined;
  const { outcome, reasons } = apply;
  const place = outcome === 'partly' ? ` on ${target.host}:${target.port}` : '';
  return html`
<section aria-label="Apply">${stateHeader(KINDS[outcome], applyWords(outcome, target.database + place, isAppliedInPart(report)), reasons)}
${factsOf(apply)}${[failures(apply), effects(apply), guardrails(apply), differences(apply), times(apply), rollbackSql(apply)].filter((part) => part !== undefined)}
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
  if (schemaEqual !== null) rows.push(['Schema', schemaEqual ? 'as rehearsed' : 'not as rehearsed']);
  if (leftovers.length > 0)
    rows.push(['Left behind', leftovers.map(({ kind, object }) => `${kind} ${object}`).join('; ')]);
  return facts(rows);
}

function failures({ statements }: ApplySection): Html | undefined {
  const failed = statements.flatMap(({ index, sql, error }) =>
    error === null ? [] : [{ index, sql, error }],
  );
  if (failed.length === 0) return undefined;
  return html`<h2>Failed on the target</h2>${tableHtml(
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
  prepared: html`<span class="tag bad">prepared, not committed</span>`,
};

/** Folded if all went well. */
function effects({ outcome, committed, rolledBack }: ApplySection): Html | undefined {
  const all = [...committed, ...rolledBack].sort((one, other) => one.statement - other.statement);
  if (all.length === 0) return undefined;
  const rows = tableHtml(
    ['#', 'Outcome', 'Statement'],
    all.slice(0, LISTED).map((each) => [html`${each.statement}`, EFFECTS[each.outcome], sqlOf(each.sql)]),
  );
  const title = `Effects: ${committed.length} of ${plural(all.length, 'writing statement')} committed, or perhaps committed`;
  return html`<details${outcome === 'applied' ? '' : OPEN}><summary>${title}</summary>${rows}${more(all.length)}</details>`;
}

const OPEN = new Html(' open');

function guardrails({ during }: ApplySection): Html | undefined {
  const words = during === null ? [] : duringWords(during, (text) => cutText(text, SQL_CHARACTERS));
  return words.length === 0 ? undefined : html`<h2>Guardrails</h2>${listHtml(words)}`;
}

function differences({ differences: found }: ApplySection): Html | undefined {
  return found.length === 0 ? undefined : html`<h2>Differences from the rehearsal</h2>${listHtml(found)}`;
}

/** Rehearsed and real times; the slowest statements on the target come first. */
function times({ comparedTimes }: ApplySection): Html | undefined {
  if (comparedTimes.length === 0) return undefined;
  const sum = (pick: (each: (typeof comparedTimes)[number]) => number) =>
    formatDuration(comparedTimes.reduce((total, each) => total + pick(each), 0));
  const longest = Math.max(...comparedTimes.flatMap((each) => [each.rehearsedMs, each.appliedMs]));
  const time = (ms: number, kind: '' | 'before') => html`${bar(ms, longest, kind)} ${formatDuration(ms)}`;
  return html`<h2>Times</h2>
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

function rollbackSql({ wayBack: sql }: ApplySection): Html | undefined {
  if (sql === null) return undefined;
  return html`<details open><summary>Rollback SQL: restores the schema that the target had before</summary><pre>${cutText(sql, ROLLBACK_CHARACTERS)}</pre></details>`;
}

function sqlOf(sql: string): Html {
  return html`<code>${cutText(sql, SQL_CHARACTERS)}</code>`;
}

function more(count: number): Html | undefined {
  return count <= LISTED
    ? undefined
    : html`<p class="dim">and ${count - LISTED} more, see the JSON report</p>`;
}
