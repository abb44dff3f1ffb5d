import { formatBytes, formatDuration, plural } from '../../format.ts';
import { statementTime } from '../../hazards/evidence.ts';
import { strongestLock } from '../../hazards/held-locks.ts';
import { sentStatements } from '../../model/repeated.ts';
import type { Report, StatementSection } from '../../model/report.ts';
import { repetitionWords } from '../phrases.ts';
import { cutText, type Html, html } from './escape-html.ts';

/** All statements in a table that can be sorted and searched; without scripts it is a plain table in the order of the run. */
export function statementTable({ statements }: Pick<Report, 'statements'>): Html | undefined {
  if (statements.length === 0) return undefined;
  return html`
<section aria-labelledby="statements"><h2 id="statements">Statements</h2>
<div class="tools"><label>Search <input type="search" id="search" aria-controls="statement-table"></label><span class="dim" id="found" aria-live="polite">${plural(sentStatements(statements), 'statement')}</span></div>
<div class="wide"><table id="statement-table"><thead><tr>
${['#', 'Time', 'Rows', 'Statement', 'Strongest lock', 'Held', 'WAL'].map((title) => html`<th scope="col"><button type="button">${title}</button></th>`)}
</tr></thead><tbody>
${statements.map(row)}
</tbody></table></div></section>`;
}

function row(statement: StatementSection): Html {
  const { index, durationMs, rows, sql, error, walBytes, exactness, repeated } = statement;
  const lock = strongestLock(statement);
  const failure =
    error === null
      ? undefined
      : html`<div><strong>${error.message}</strong> (SQLSTATE ${error.sqlstate})</div>`;
  const times = repeated && html`<div class="dim">${repetitionWords(repeated)}</div>`;
  const expected = statement.atProductionSize && html`<div class="dim">${statementTime(statement)}</div>`;
  const known = exactness === 'exact' || exactness === 'group' ? '' : ` (${exactness})`;
  return html`<tr id="statement-${index}"${error === null ? '' : FAILED}><td class="num" data-value="${index}">${index}</td><td class="num" data-value="${durationMs}">${formatDuration(durationMs)}</td><td class="num" data-value="${rows ?? -1}">${rows ?? ''}</td><td class="sql">${cutText(sql)}${expected}${times}${failure}</td><td>${lock ? html`${lock.mode} <span class="dim">on ${lock.relation}${known}</span>` : html`<span class="dim">${exactness === 'unknown' ? 'unknown' : ''}</span>`}</td><td class="num" data-value="${lock?.heldMs ?? -1}">${lock?.heldMs == null ? '' : formatDuration(lock.heldMs)}</td><td class="num" data-value="${walBytes ?? -1}">${walBytes === null ? '' : formatBytes(walBytes)}</td></tr>
`;
}

const FAILED = html` class="failed"`;
