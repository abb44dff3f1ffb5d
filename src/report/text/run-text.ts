import { formatBytes, formatDuration, listed, plural } from '../../format.ts';
import { isolatedFrom } from '../../hazards/attempt-words.ts';
import type { Report } from '../../model/report.ts';
import { containmentText, isolationText } from '../isolation-phrases.ts';
import { unprovedWords } from '../phrases.ts';
import { marks, type Span, type TextStyle, tone } from '../text-layout.ts';
import { fact, messageText } from './parts-text.ts';
import { outcome } from './verdict-text.ts';

const LISTED = 5;
/** Variables and arguments through which the command came to the clone. */
const LISTED_WAYS = 2;

/** The target, the clone, the command and the run. */
export function runText(report: Report, style: TextStyle): string[] {
  const { run, command } = report;
  const seconds = Date.parse(run.finishedAt) - Date.parse(run.startedAt);
  const facts: [string, Span[]][] = [
    ['Target', targetSpans(report)],
    ['', targetState(report, style)],
    ['Clone', cloneSpans(report, style)],
    ['', [messageText(style, containmentText(report.clone))]],
    ['Command', [tone('strong', messageText(style, command.argv.map(shellWord).join(' '), 240))]],
    ...(style.verbose || !succeeded(command)
      ? [['', outcomeSpans(report, style)] satisfies [string, Span[]]]
      : []),
    ['', reachSpans(report, style)],
    ...(style.verbose || (command.isolation.kind !== 'watched' && !isPlainlySandboxed(command))
      ? [['', [messageText(style, isolationText(command.isolation))]] satisfies [string, Span[]]]
      : []),
    ...attemptLines(report, style),
    ...noteSpans(report, style).map((spans): [string, Span[]] => ['', spans]),
    ...command.undecided
      .slice(0, LISTED)
      .map(({ name, reason }): [string, Span[]] => [
        '',
        ['not rewritten: ', tone('strong', name), `, ${messageText(style, reason)}`],
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

/** Whether the target is unchanged: the question behind every rehearsal. */
function targetState(report: Report, style: TextStyle): Span[] {
  const { changes, touched } = report.target;
  const ours =
    touched.length === 0 || !style.verbose
      ? ''
      : `; safemigrate itself: ${messageText(style, touched.join(', '))}`;
  if (changes.some((change) => change.madeBy === 'command'))
    return [tone('alarm', `CHANGED BY THE COMMAND, see above`), ours];
  if (changes.some((change) => change.madeBy === 'unknown'))
    return [tone('alarm', 'CHANGED, BY WHOM IS UNKNOWN, see above'), ours];
  const state =
    unprovedWords(report) === undefined
      ? 'unchanged by the rehearsal'
      : tone('warning', 'not proved unchanged by the rehearsal, see above');
  const others = changes.flatMap(({ what, madeBy }) => (madeBy === 'others' ? [what] : [])).join(', ');
  if (others === '') return [state, ours];
  return [state, `; changed by other sessions: ${messageText(style, others)}`, ours];
}

function cloneSpans({ clone }: Report, style: TextStyle): Span[] {
  const space = clone.uniqueBytes === null ? '' : `, takes ${formatBytes(clone.uniqueBytes)} of its own`;
  return [
    `${clone.method} (${clone.strategy}) in ${formatDuration(clone.durationMs)}`,
    `${clone.sizeBytes === null ? '' : `, ${formatBytes(clone.sizeBytes)}`}${space}`,
    style.verbose ? `: ${clone.reason}` : '',
    clone.kept ? `; kept as ` : '',
    clone.kept ? tone('strong', clone.database) : '',
  ];
}

function outcomeSpans({ command }: Report, style: TextStyle): Span[] {
  const good = succeeded(command);
  const mark = good ? marks(style).pass : marks(style).fail;
  return [tone(good ? 'good' : 'bad', `${mark} ${outcome(command)}`)];
}

function succeeded({ exitCode, signal, timedOut }: Report['command']): boolean {
  return exitCode === 0 && signal === null && !timedOut;
}

/** Attempts that did not matter are left to `--verbose`. */
function attemptLines({ command }: Report, style: TextStyle): [string, Span[]][] {
  const words = isolatedFrom(command.isolation);
  if (words === undefined || (succeeded(command) && !style.verbose)) return [];
  return [['', [messageText(style, words)]]];
}

function reachSpans({ command, statements }: Report, style: TextStyle): Span[] {
  if (!command.reachedClone)
    return [
      tone('bad', `${marks(style).fail} never connected to the clone`),
      command.rewritten.length === 0
        ? `: nothing in its arguments, its environment and .env named the target${offered(command)}`
        : `, although ${command.rewritten.join(', ')} ${command.rewritten.length === 1 ? 'points' : 'point'} to it`,
    ];
  const through =
    command.rewritten.length === 0
      ? offered(command)
      : ` through ${listed(command.rewritten, { atMost: style.verbose ? command.rewritten.length : LISTED_WAYS })}`;
  const sessions = new Set(statements.map((statement) => statement.session)).size;
  const held = isPlainlySandboxed(command) && !style.verbose ? `, sandboxed by ${command.isolation.by}` : '';
  return [`reached the clone${through}${sessions > 1 ? ` in ${sessions} sessions` : ''}${held}`];
}

/** The usual case takes no line of its own: nothing but the proxy was allowed. */
function isPlainlySandboxed({ isolation, reachedClone }: Report['command']): boolean {
  return reachedClone && isolation.kind === 'sandboxed' && isolation.allowed.length === 0;
}

/** The variables by which safemigrate led a command that named nothing itself. */
function offered({ added }: Report['command']): string {
  return added.length === 0 ? '' : ` (safemigrate set ${listed(added)})`;
}

/** Statements that were refused, allowed or redirected, and contradictions between the exit code and the server. */
function noteSpans({ command }: Report, style: TextStyle): Span[][] {
  const { refused, allowed, redirected, swallowedErrors, failedWithoutError, leftRunning } = command;
  const notes: Span[][] = refused
    .slice(0, LISTED)
    .map(({ what, why }) => [
      tone('bad', `${marks(style).fail} not run: ${messageText(style, what)}`),
      `, ${why}`,
    ]);
  if (allowed.length > 0)
    notes.push([
      tone('warning', 'allowed'),
      `, although it takes effect outside the clone: ${listed(unique(allowed))}`,
    ]);
  if (redirected.length > 0)
    notes.push([`redirected to the clone (it named the target database): ${listed(unique(redirected))}`]);
  if (swallowedErrors.length > 0) {
    const which = plural(swallowedErrors.length, 'statement');
    notes.push([
      tone('warning', `${which} failed in the server`),
      ', but the command ended with exit code 0',
    ]);
  }
  for (const { command: program, pid } of leftRunning.slice(0, LISTED))
    notes.push([tone('warning', 'left running'), `: ${messageText(style, program)} (pid ${pid})`]);
  if (failedWithoutError) notes.push(['none of its statements failed in the server']);
  return notes;
}

function unique(items: readonly string[]): string[] {
  return [...new Set(items)];
}

/** Quotes a word only if a shell needs it, so that the line can be pasted. */
function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
