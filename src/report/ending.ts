import { formatDuration } from '../format.ts';
import type { Report } from '../model/report.ts';
import type { UpgradeReport } from '../model/upgrade-model.ts';
import { alarmingChanges, unprovedWords } from './phrases.ts';
import { closedWords } from './sections/swap-view.ts';
import { cutLine, flow, marks, type Span, type TextStyle, type Tone, tone } from './text-layout.ts';
import { visible } from './visible.ts';
import { cutToWidth, displayWidth } from './width.ts';

/** The last line of every run: its verdict. */
export interface VerdictLine {
  readonly outcome: Extract<Tone, 'good' | 'warning' | 'bad' | 'alarm'>;
  readonly words: string;
  /** Where to read more. */
  readonly hint?: string;
}

const DETAILS = 'Details: safemigrate show';

export function endingOf(report: Report): VerdictLine {
  const { verdict, target, apply, swap } = report;
  const { host, port } = target;
  const name = nameOf(target.database);
  if (alarmingChanges(target).length > 0)
    return { outcome: 'alarm', words: `${name} was changed: look at it on ${host}:${port} now.` };
  if (apply !== null) return applyEnding(report, apply);
  if (swap !== null) return swapEnding(name, swap);
  const unchanged =
    unprovedWords(report) === undefined ? ', nothing was changed.' : '; the target could not be verified.';
  return verdict.pass
    ? { outcome: 'good', words: `Passed${unchanged}`, hint: DETAILS }
    : { outcome: 'bad', words: `Did not pass${unchanged}`, hint: DETAILS };
}

function applyEnding({ target, hazards }: Report, apply: NonNullable<Report['apply']>): VerdictLine {
  const { outcome, command, differences } = apply;
  const name = nameOf(target.database);
  const took = command === null ? '' : ` in ${formatDuration(command.durationMs)}`;
  switch (outcome) {
    case 'applied': {
      const inPart = hazards.some(({ code }) => code === 'ERRORS_SWALLOWED');
      const how = differences.length === 0 ? 'as rehearsed' : 'with differences from the rehearsal';
      return {
        outcome: inPart || differences.length > 0 ? 'warning' : 'good',
        words: `Applied to ${name}${inPart ? ' in part' : ''}${took}, ${how}.`,
        hint: DETAILS,
      };
    }
    case 'refused':
      return { outcome: 'bad', words: 'Not applied, nothing was changed.', hint: DETAILS };
    case 'failed':
      return { outcome: 'bad', words: `Apply failed, ${name} is as before.`, hint: DETAILS };
    case 'partly':
      return {
        outcome: 'alarm',
        words: `${name} is not as asked: look at it on ${target.host}:${target.port} now.`,
      };
  }
}

function swapEnding(name: string, swap: NonNullable<Report['swap']>): VerdictLine {
  const { outcome, online } = swap;
  const closed = closedWords(swap);
  switch (outcome) {
    case 'swapped':
      return {
        outcome: 'good',
        words: `Swapped: ${name} is the migrated clone${closed}.`,
        hint: 'Undo: safemigrate rollback',
      };
    case 'undone':
      return {
        outcome: 'bad',
        words: `Swap undone: ${name} is ${online ? 'open, and not migrated' : 'as before'}${closed}.`,
        hint: DETAILS,
      };
    case 'refused':
      return { outcome: 'bad', words: 'Not swapped, nothing was changed.', hint: DETAILS };
  }
}

/** An upgrade is only rehearsed: the target is as it was. */
export function upgradeEnding({ verdict, to }: UpgradeReport): VerdictLine {
  const what = `the upgrade to PostgreSQL ${to.major}`;
  return verdict.pass
    ? { outcome: 'good', words: `Passed: ${what}; nothing was changed.` }
    : { outcome: 'bad', words: `Did not pass: ${what}; nothing was changed.` };
}

const NAME_COLUMNS = 30;

/** A long name must leave room for the verdict. */
function nameOf(database: string): string {
  return cutToWidth(visible(database), NAME_COLUMNS, '...');
}

/** A line across, the hint if there is room for it, and the verdict in the last line. */
export function endingLines({ outcome, words, hint = '' }: VerdictLine, style: TextStyle): string[] {
  const { pass, fail, warning, rule } = marks(style);
  const sign = { good: pass, bad: fail, warning, alarm: '!!!' }[outcome];
  const verdict: Span[] = [tone(outcome, `${sign} ${words}`)];
  const gap = style.columns - displayWidth(`${sign} ${words}`) - displayWidth(hint);
  const across = cutLine(style, [tone('dim', rule.repeat(style.columns))]);
  if (hint === '' || gap < 2) return [across, ...flow(style, verdict, 2, [''])];
  return [across, ...flow(style, [...verdict, ' '.repeat(gap), tone('dim', hint)], 2, [''])];
}
