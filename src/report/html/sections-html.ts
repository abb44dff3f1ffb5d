import { formatBytes, formatBytesDelta, formatCount, formatDuration, plural } from '../../format.ts';
import { isolatedFrom } from '../../hazards/attempt-words.ts';
import { sentStatements } from '../../model/repeated.ts';
import type { Hazard, Report } from '../../model/report.ts';
import { sizeOfClone } from '../clone-size.ts';
import { firstAnswers } from '../first-answers.ts';
import { hazardsInOrder } from '../hazard-blocks.ts';
import { containmentText, watchedWords } from '../isolation-phrases.ts';
import {
  alarmingChanges,
  convertedWords,
  cutWords,
  losingChanges,
  sizesWords,
  unprovedWords,
  writtenWords,
} from '../phrases.ts';
import { saferFormHint } from '../proposal-phrases.ts';
import { cutText, Html, html } from './escape-html.ts';
import { changedObjectsHtml, lossTag } from './objects-html.ts';
import { bar, facts, listHtml, section, tableHtml } from './parts-html.ts';

/** The verdict and its reasons. It is the page's title unless the run was to change the target. */
export function verdictHtml(report: Report): Html {
  const { verdict, target, command, caveats, apply, swap } = report;
  const unproved = unprovedWords(report);
  const watched = watchedWords(report);
  const sizes = sizesWords(report);
  const { pass, reasons } = verdict;
  const changed = alarmingChanges(target);
  const whoChanged = changed.some(({ madeBy }) => madeBy === 'command')
    ? 'The command changed the target itself.'
    : 'The target changed while the command ran, and who changed it is unknown.';
  const why = pass
    ? `the command succeeded on ${sizeOfClone({ caveats })}`
    : (reasons[0] ?? 'the command failed');
  const alone = apply === null && swap === null;
  const passed = pass ? 'passed' : 'did not pass';
  const title = `${pass ? '✓' : '✗'} ${alone ? capital(passed) : `The rehearsal ${passed}`}: ${why}`;
  return html`
${changed.length > 0 && html`<p class="alarm" role="alert">${whoChanged} A person must look at ${target.database} on ${target.host}:${target.port} now: ${changed.map(({ what }) => what).join('; ')}</p>`}
<header class="verdict ${pass ? 'good' : 'bad'}">${alone ? html`<h1>${title}</h1>` : html`<h2>${title}</h2>`}
<p><code>${command.argv.join(' ')}</code></p>
${unproved !== undefined && html`<p><strong>The target is not proved unchanged:</strong> ${unproved}</p>`}
${watched !== undefined && html`<p>${watched}</p>`}
${sizes !== undefined && html`<p>${capital(sizes)}</p>`}
${listHtml(reasons.slice(1))}
${facts(firstAnswers(report).map(({ question, words }) => [question, capital(words)] as const))}
</header>`;
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

export function factSection({ run, target, clone, command, statements, schema, data }: Report): Html {
  const totalMs = Date.parse(run.finishedAt) - Date.parse(run.startedAt);
  const failed = statements.filter(({ error }) => error !== null).length;
  const notAllowed = isolatedFrom(command.isolation);
  const rows: [string, string][] = [
    [
      'Target',
      `${target.database} on ${target.host}:${target.port}, PostgreSQL ${target.serverVersion}, ${formatBytes(target.sizeBytes)}, from ${target.source}`,
    ],
    ['On the target', target.touched.length === 0 ? 'read only' : target.touched.join('; ')],
    ['Clone', `${clone.method} (${clone.strategy}) in ${formatDuration(clone.durationMs)}: ${clone.reason}`],
    ['Isolation', containmentText(clone)],
    [
      'Command',
      command.signal === null
        ? `exit code ${command.exitCode ?? '–'} after ${formatDuration(command.durationMs)}`
        : `terminated by ${command.signal} after ${formatDuration(command.durationMs)}`,
    ],
    ...(notAllowed === undefined ? [] : [['Attempts', notAllowed] satisfies [string, string]]),
    [
      'Statements',
      `${plural(sentStatements(statements), 'statement')}${failed === 0 ? '' : `, ${formatCount(failed)} failed`}`,
    ],
    ['Schema', schema === null ? 'not compared' : plural(schema.changes.length, 'change')],
    [
      'Size',
      data?.sizeDeltaBytes == null
        ? 'not measured'
        : `${formatBytesDelta(data.sizeDeltaBytes)}${data.walBytes === null ? '' : `, ${formatBytes(data.walBytes)} WAL`}`,
    ],
    [
      'Run',
      `${run.id}, ${run.startedAt}, ${formatDuration(Math.max(0, totalMs))} in all, ${run.tool.name} ${run.tool.version}`,
    ],
  ];
  return facts(rows);
}

export function hazardsHtml(report: Report): Html | undefined {
  const { hazards } = report;
  const hint = saferFormHint(report);
  if (hazards.length === 0) return undefined;
  return section('hazards', `Hazards (${formatCount(hazards.length)})`, [
    ...hazardsInOrder(report).flatMap(({ title, hazards: together }) => [
      ...(title === null ? [] : [html`<p class="together">${title}</p>`]),
      ...together.map(hazardArticle),
    ]),
    ...(hint === null ? [] : [html`<p>${hint}</p>`]),
  ]);
}

function hazardArticle(hazard: Hazard): Html {
  const { code, severity, relation, statement, message, evidence, advice, allowed } = hazard;
  return html`
<article class="hazard ${severity}"><h3><span class="tag ${severity}">${severity}</span> ${code}${relation !== null && html` on <code>${relation}</code>`}${statement !== null && html`, <a href="#statement-${statement}">statement ${statement}</a>`}${allowed && ' (allowed by the policy)'}</h3>
<p>${message}</p>${evidence !== '' && html`<p><strong>Evidence:</strong> ${evidence}</p>`}${advice !== '' && html`<p><strong>Do:</strong></p><pre>${advice}</pre>`}</article>`;
}

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
