import { formatCount, formatDuration, plural } from '../../format.ts';
import type { Report } from '../../model/report.ts';
import { sizeOfClone } from '../clone-size.ts';
import { firstAnswers } from '../first-answers.ts';
import { watchedWords } from '../isolation-phrases.ts';
import { alarmingChanges, losingChanges, sizesWords, unprovedWords } from '../phrases.ts';
import { flow, marks, type TextStyle, tone } from '../text-layout.ts';
import { andMore, bullet, fact, messageText } from './parts-text.ts';

const LISTED = 20;

export function verdictText(report: Report, style: TextStyle): string[] {
  const { pass, reasons } = report.verdict;
  const [first, ...others] = reasons.length > 0 ? reasons : [impliedReason(report)];
  const mark = pass ? marks(style).pass : marks(style).fail;
  const title = tone(pass ? 'good' : 'bad', `${mark} ${pass ? 'PASSED' : 'DID NOT PASS'}`);
  return [
    ...flow(style, [': ', tone('strong', messageText(style, first ?? ''))], 2, [title]),
    ...unprovedLine(report, style),
    ...watchedLine(report, style),
    ...sizesLine(report, style),
    ...others.slice(0, LISTED).flatMap((reason) => bullet(style, [messageText(style, reason)])),
    ...andMore(style, others.length - LISTED),
    ...firstAnswers(report).flatMap(({ question, words }) =>
      fact(style, question, [messageText(style, words)]),
    ),
  ];
}

function unprovedLine(report: Report, style: TextStyle): string[] {
  const why = unprovedWords(report);
  if (why === undefined) return [];
  const state = tone('warning', 'The target is not proved unchanged');
  return flow(style, [state, ': ', messageText(style, why)], 4, [tone('warning', '  ! ')]);
}

function watchedLine(report: Report, style: TextStyle): string[] {
  const words = watchedWords(report);
  return words === undefined ? [] : flow(style, [messageText(style, words)], 4, [tone('warning', '  ! ')]);
}

function sizesLine(report: Report, style: TextStyle): string[] {
  const words = sizesWords(report);
  return words === undefined ? [] : flow(style, [messageText(style, capital(words))], 4, ['  ']);
}

function capital(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** The reason if the policy gave none. */
function impliedReason(report: Report): string {
  const { command, schema, data, verdict } = report;
  if (!verdict.pass) return `the command ${outcome(command)}`;
  const changes = schema?.changes.length ?? 0;
  const { certain, possible } = losingChanges(report);
  const losing = certain.length;
  const counted = schema === null ? '' : ` It makes ${plural(changes, 'schema change')}.`;
  const lost = losing === 0 ? '' : ` ${formatCount(losing)} of them destroy${losing === 1 ? 's' : ''} data.`;
  const perhaps = possible.length === 0 ? '' : ` ${formatCount(possible.length)} of them may lose data.`;
  const rowsLost = (data?.lost ?? []).filter(({ kind }) => kind === 'table');
  const gone = rowsLost.reduce((sum, { rowsWithValue }) => sum + (rowsWithValue ?? 0), 0);
  const isExact = rowsLost.every(({ exact }) => exact);
  const deleted =
    gone === 0
      ? ''
      : ` ${isExact ? '' : 'About '}${plural(gone, 'row')} of its tables ${gone === 1 ? 'is' : 'are'} gone.`;
  const failed = command.swallowedErrors.length;
  const swallowed = failed === 0 ? '' : ` But ${plural(failed, 'statement')} failed in the server.`;
  return `the command succeeded on ${sizeOfClone(report)}.${counted}${lost}${perhaps}${deleted}${swallowed}`;
}

export function outcome(command: Report['command']): string {
  const after = `after ${formatDuration(command.durationMs)}`;
  if (command.timedOut) return `was stopped by the time limit ${after}`;
  if (command.signal !== null) return `was terminated by ${command.signal} ${after}`;
  if (command.exitCode === null) return `ended without an exit code ${after}`;
  if (command.exitCode === 0) return `succeeded in ${formatDuration(command.durationMs)}`;
  return `failed with exit code ${command.exitCode} ${after}`;
}

/** The changes behind exit code 5, which must not be overlooked. */
export function targetChangesSection(report: Report, style: TextStyle): string[] {
  const { target } = report;
  const made = alarmingChanges(target);
  if (made.length === 0) return [];
  const isProved = made.some(({ madeBy }) => madeBy === 'command');
  return [
    ...flow(style, [
      tone(
        'alarm',
        isProved
          ? '!!! THE COMMAND CHANGED THE TARGET ITSELF !!!'
          : '!!! THE TARGET CHANGED WHILE THE COMMAND RAN !!!',
      ),
    ]),
    ...flow(style, [
      isProved
        ? 'The rehearsal did not stay on the clone. '
        : 'Whether the command or somebody else changed it is unknown. ',
      `A person must look at ${target.database} on ${target.host}:${target.port} now.`,
    ]),
    ...made.flatMap((change) => [
      ...flow(style, [tone('bad', messageText(style, change.what))], 4, [tone('bad', '  ! ')]),
      ...flow(style, [messageText(style, change.evidence)], 6, ['    ', tone('dim', 'Evidence: ')]),
    ]),
  ];
}
