import { formatBytes, formatDuration, plural } from '../../format.ts';
import type { Report } from '../../model/report.ts';
import { marks, type Span, type TextStyle, tone } from '../text-layout.ts';
import { caveatAt, fact, messageText } from './parts-text.ts';
import { outcome } from './verdict-text.ts';

const LISTED = 5;

/** Where, on what, and what was run. */
export function runText(report: Report, style: TextStyle): string[] {
  const { run, command } = report;
  const seconds = Date.parse(run.finishedAt) - Date.parse(run.startedAt);
  const facts: [string, Span[]][] = [
    ['Target', targetSpans(report)],
    ['', targetState(report, style)],
    ['Clone', cloneSpans(report)],
    ['Command', [tone('strong', messageText(style, command.argv.map(shellWord).join(' '), 240))]],
    ['', outcomeSpans(report, style)],
    ['', reachSpans(report, style)],
    ...noteSpans(report, style).map((spans): [string, Span[]] => ['', spans]),
    ...command.undecided
      .slice(0, LISTED)
      .map(({ name, reason }): [string, Span[]] => [
        '',
        ['left alone: ', tone('strong', name), `, ${messageText(style, reason)}`],
      ]),
    ['Run', [`${run.id}, ${run.mode}, ${formatDuration(Math.max(0, seconds))} in all, `, toolOf(report)]],
  ];
  return facts.flatMap(([label, spans]) => fact(style, label, spans));
}

function toolOf({ run }: Report): string {
  return `${run.tool.name} ${run.tool.version}`;
}

function targetSpans({ target }: Report): Span[] {
  return [
    tone('strong', target.database),
    ` on ${target.host}:${target.port}, PostgreSQL ${target.serverVersion}, ${formatBytes(target.sizeBytes)}`,
    `, from ${target.source}`,
  ];
}

/** Whether the target is as it was, which is the question behind every rehearsal. */
function targetState(report: Report, style: TextStyle): Span[] {
  const { changes, touched } = report.target;
  const ours = touched.length === 0 ? '' : `; safemigrate itself: ${messageText(style, touched.join(', '))}`;
  if (changes.some((change) => change.madeBy === 'command'))
    return [tone('alarm', `CHANGED BY THE COMMAND, see above`), ours];
  if (changes.some((change) => change.madeBy === 'unknown'))
    return [tone('alarm', 'CHANGED, BY WHOM IS UNKNOWN, see above'), ours];
  const caveat = caveatAt(report, 'target.changes');
  if (caveat) return [tone('warning', 'changes not checked'), `: ${messageText(style, caveat.reason)}`, ours];
  if (changes.length === 0) return ['unchanged by the rehearsal', ours];
  const others = changes.map((change) => change.what).join(', ');
  return [`unchanged by the rehearsal; meanwhile changed by others: ${messageText(style, others)}`, ours];
}

function cloneSpans({ clone }: Report): Span[] {
  const space = clone.uniqueBytes === null ? '' : `, takes ${formatBytes(clone.uniqueBytes)} of its own`;
  return [
    `${clone.method} (${clone.strategy}) in ${formatDuration(clone.durationMs)}`,
    `${clone.sizeBytes === null ? '' : `, ${formatBytes(clone.sizeBytes)}`}${space}: ${clone.reason}`,
    clone.kept ? `; kept as ` : '',
    clone.kept ? tone('strong', clone.database) : '',
  ];
}

function outcomeSpans({ command }: Report, style: TextStyle): Span[] {
  const good = command.exitCode === 0 && command.signal === null && !command.timedOut;
  const mark = good ? marks(style).pass : marks(style).fail;
  return [tone(good ? 'good' : 'bad', `${mark} ${outcome(command)}`)];
}

function reachSpans({ command, statements }: Report, style: TextStyle): Span[] {
  if (!command.reachedClone)
    return [
      tone('bad', `${marks(style).fail} never connected to the clone`),
      command.rewritten.length === 0
        ? ': nothing of its environment or arguments could be pointed there'
        : `, although ${command.rewritten.join(', ')} led there`,
    ];
  const through = command.rewritten.length === 0 ? '' : ` through ${command.rewritten.join(', ')}`;
  const sessions = new Set(statements.map((statement) => statement.session)).size;
  return [`reached the clone${through}${sessions > 1 ? ` in ${sessions} sessions` : ''}`];
}

/** What is odd about how the command and the server ended, and what was not run as it was written. */
function noteSpans({ command }: Report, style: TextStyle): Span[][] {
  const { refused, allowed, redirected, swallowedErrors, failedWithoutError } = command;
  const notes: Span[][] = refused
    .slice(0, LISTED)
    .map(({ what, why }) => [
      tone('bad', `${marks(style).fail} not run: ${messageText(style, what)}`),
      `, ${why}`,
    ]);
  if (allowed.length > 0)
    notes.push([
      tone('warning', 'let through'),
      `, although it reaches beyond the clone: ${listed(allowed)}`,
    ]);
  if (redirected.length > 0)
    notes.push([`led to the clone, because it named the target: ${listed(redirected)}`]);
  if (swallowedErrors.length > 0) {
    const which = plural(swallowedErrors.length, 'statement');
    notes.push([
      tone('warning', `${which} failed in the server`),
      ', and the command ended with exit code 0 all the same',
    ]);
  }
  if (failedWithoutError) notes.push(['no statement of it failed in the server']);
  return notes;
}

function listed(items: readonly string[]): string {
  const unique = [...new Set(items)];
  const more = unique.length > LISTED ? `, and ${unique.length - LISTED} more` : '';
  return unique.slice(0, LISTED).join(', ') + more;
}

/** Quoted only where a shell would need it, so that the line can be pasted. */
function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
