import { formatBytes, formatCount, plural } from '../../format.ts';
import type { Report } from '../../model/report.ts';
import { convertedWords, cutWords, losingChanges, writtenWords } from '../phrases.ts';
import { cutText, Html, html } from './escape-html.ts';
import { changedObjectsHtml, lossTag } from './objects-html.ts';
import { bar, section, tableHtml } from './parts-html.ts';

export function lossSection({ data }: Report): Html | undefined {
  const lost = data?.lost ?? [];
  const converted = data?.converted ?? [];
  if (lost.length + converted.length === 0) return undefined;
  return section('lost', 'Lost data', [
    tableHtml(
      ['Object', 'Change', 'Values', 'Rows'],
      lost.map((each) => [
        html`${each.kind} <code>${each.object}</code>`,
        html`${each.what}${each.what === 'narrowed' && `: ${cutWords(each)}`}`,
        html`${count(each.rowsWithValue, each.exact)}`,
        html`${count(each.rows, each.exact)}`,
      ]),
    ),
    ...converted.map((each) => html`<p>${convertedWords(each)}</p>`),
  ]);
}

function count(value: number | null, exact: boolean): string {
  return value === null ? 'unknown' : `${exact ? '' : 'about '}${formatCount(value)}`;
}

/** The objects that differ, before and after, and the SQL of the difference. */
export function schemaHtml(report: Report): Html | undefined {
  const { schema } = report;
  if (schema === null) return undefined;
  const { changes, renames, leftovers, unmodeled } = schema;
  const { possible } = losingChanges(report);
  const objects = changedObjectsHtml(schema, possible);
  const open = objects.length === 0 && changes.length <= OPEN_CHANGES;
  return section('schema', `Schema (${plural(changes.length, 'change')})`, [
    ...renames.map(
      ({ kind, from, to }) => html`<p>rename ${kind} <code>${from}</code> → <code>${to}</code></p>`,
    ),
    ...leftovers.map(
      ({ kind, object, preexisting }) =>
        html`<p><span class="tag ${preexisting ? 'notice' : 'warning'}">leftover</span> ${kind} <code>${object}</code>${preexisting && ', existed before the command'}</p>`,
    ),
    ...unmodeled.map(
      ({ kind, detail }) => html`<p><span class="tag warning">not compared</span> ${kind}: ${detail}</p>`,
    ),
    ...(objects.length === 0 ? [] : [html`<h3>Objects</h3>`, ...objects]),
    ...(changes.length === 0 ? [] : [html`<h3>SQL</h3>`]),
    ...changes.map(
      (change) =>
        html`<details${open && OPEN}><summary>${change.verb} ${change.kind} <code>${change.object}</code>${lossTag([change], possible)}</summary><pre>${cutText(change.sql)}</pre></details>`,
    ),
  ]);
}

const OPEN_CHANGES = 12;
const OPEN = new Html(' open');

export function rollbackHtml({ schema }: Report): Html | undefined {
  if (!schema?.rollbackSql) return undefined;
  return section('rollback-sql', 'Rollback SQL', [
    ...(schema.rollbackLoses.length === 0
      ? []
      : [
          html`<p>It does not restore:</p><ul>${schema.rollbackLoses.map((loss) => html`<li>${loss}</li>`)}</ul>`,
        ]),
    html`<details><summary>SQL that restores the schema before</summary><pre>${cutText(schema.rollbackSql, 100_000)}</pre></details>`,
  ]);
}

export function dataHtml({ data }: Report): Html | undefined {
  if (data === null || data.tables.length === 0) return undefined;
  const largest = Math.max(
    1,
    ...data.tables.flatMap(({ bytesBefore, bytesAfter }) => [bytesBefore ?? 0, bytesAfter ?? 0]),
  );
  const size = (bytes: number | null, kind: '' | 'before') =>
    bytes === null
      ? html`<span class="dim">–</span>`
      : html`${bar(bytes, largest, kind)} ${formatBytes(bytes)}`;
  const rows = (value: number | null, exact: boolean) =>
    value === null ? '–' : `${exact ? '' : '~'}${formatCount(value)}`;
  const written = data.written.map(
    (rows) => html`<p>Rows of <code>${rows.relation}</code>: ${writtenWords(rows)}.</p>`,
  );
  return section('data', 'Data', [
    tableHtml(
      ['Table', 'Rows before', 'after', 'Size before', 'after', 'Note'],
      data.tables.map(({ relation, rowsBefore, rowsAfter, exact, bytesBefore, bytesAfter, rewritten }) => [
        html`<code>${relation}</code>`,
        html`${rows(rowsBefore, exact)}`,
        html`${rows(rowsAfter, exact)}`,
        size(bytesBefore, 'before'),
        size(bytesAfter, ''),
        html`${rewritten && html`<span class="tag warning">rewritten</span>`}`,
      ]),
    ),
    ...written,
    html`<p class="dim">${plural(data.unchangedTables, 'other table')} did not change.</p>`,
  ]);
}

export function caveatSection({ caveats }: Pick<Report, 'caveats'>): Html | undefined {
  if (caveats.length === 0) return undefined;
  return section('caveats', 'Caveats', [
    html`<ul>${caveats.map(({ path, kind, reason }) => html`<li><code>${path}</code> (${kind}): ${reason}</li>`)}</ul>`,
  ]);
}
