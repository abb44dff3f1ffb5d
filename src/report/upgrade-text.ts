import { formatBytes, formatDuration, plural } from '../format.ts';
import type { ModeSection, UpgradeObstacle, UpgradePhase, UpgradeReport } from '../model/upgrade-model.ts';
import { cleanupView } from './sections/target-view.ts';
import { caveatsText } from './text/outcome-text.ts';
import { andMore, bullet, fact, heading, messageText } from './text/parts-text.ts';
import { failureSection, statementsText } from './text/statements-text.ts';
import { flow, layoutTable, marks, type Span, type TextStyle, tone } from './text-layout.ts';
import {
  furtherReasons,
  notPassedWords,
  postUpgradeWords,
  triedWords,
  upgradeSummary,
  wayBackWords,
} from './upgrade-phrases.ts';
import { viewText } from './view/text-view.ts';

/** The report of an upgrade for a person at a terminal; ends in a newline. */
export function renderUpgradeText(report: UpgradeReport, style: TextStyle): string {
  const sections = [
    verdictLines(report, style),
    factLines(report, style),
    obstacleLines(report, style),
    modeLines(report, style),
    stepLines(report, style),
    ...commandSections(report, style),
    caveatsText(report, style),
    ...viewText(cleanupView(report), style),
  ];
  const shown = sections.filter((lines) => lines.length > 0).map((lines) => lines.join('\n'));
  return `${shown.join('\n\n')}\n`;
}

function verdictLines(report: UpgradeReport, style: TextStyle): string[] {
  const { verdict, recommendation } = report;
  const mark = verdict.pass ? marks(style).pass : marks(style).fail;
  const title = tone(verdict.pass ? 'good' : 'bad', `${mark} ${verdict.pass ? 'PASSED' : 'DID NOT PASS'}`);
  return [
    ...flow(style, [': ', tone('strong', messageText(style, upgradeSummary(report)))], 2, [title]),
    ...furtherReasons(report).flatMap((reason) => bullet(style, [messageText(style, reason)])),
    ...(recommendation
      ? fact(style, 'Choose', [tone('strong', `--${recommendation.mode}`), `: ${recommendation.reason}`])
      : []),
  ];
}

function factLines(report: UpgradeReport, style: TextStyle): string[] {
  const { from, to, target, clone } = report;
  const copied = `${plural(target.databases, 'database')}, ${formatBytes(target.sizeBytes)}`;
  return [
    ...fact(style, 'Upgrade', [
      `PostgreSQL ${from.version} ${marks(style).arrow} ${to.version}, ${target.host}:${target.port}`,
    ]),
    ...fact(style, 'Copy', [
      `${copied}, by ${clone.strategy}, recovered and shut down in ${formatDuration(clone.durationMs)}; the target went on working`,
    ]),
    ...target.touched.flatMap((what) => fact(style, 'Touched', [messageText(style, what)])),
    ...askedLines(report, style),
  ];
}

function askedLines({ application, command }: UpgradeReport, style: TextStyle): string[] {
  const ran = command && postUpgradeWords(command);
  return [
    ...(ran === null ? [] : fact(style, 'Command', [messageText(style, ran)])),
    ...(application === null ? [] : fact(style, 'Tried', [messageText(style, triedWords(application))])),
  ];
}

const SHOWN_OBJECTS = 5;

function obstacleLines({ obstacles }: UpgradeReport, style: TextStyle): string[] {
  if (obstacles.length === 0) return [];
  return [
    ...heading(style, 'In the way', plural(obstacles.length, 'finding')),
    ...obstacles.flatMap((obstacle) => oneObstacle(obstacle, style)),
  ];
}

function oneObstacle(
  { severity, code, message, objects, count, remedy, sql }: UpgradeObstacle,
  style: TextStyle,
): string[] {
  const { fail, warning, notice } = marks(style);
  const mark = { error: tone('bad', fail), warning: tone('warning', warning), notice: tone('dim', notice) }[
    severity
  ];
  const shown = objects.slice(0, SHOWN_OBJECTS);
  return [
    ...flow(style, [tone('strong', code), `  ${messageText(style, message)}`], 4, ['  ', mark, ' ']),
    ...shown.flatMap((object) => flow(style, [messageText(style, object)], 8, ['      - '])),
    ...andMore(style, count - shown.length),
    ...flow(style, [messageText(style, remedy)], 6, [tone('dim', '    Do: ')]),
    ...sql
      .slice(0, SHOWN_OBJECTS)
      .flatMap((statement) => flow(style, [messageText(style, statement)], 10, ['        '])),
    ...andMore(style, sql.length - SHOWN_OBJECTS, ' statements'),
  ];
}

function modeLines(report: UpgradeReport, style: TextStyle): string[] {
  if (report.modes.length === 0) return [];
  const command = report.command === null ? [] : ['command'];
  const titles = ['mode', 'pg_upgrade', 'start', 'statistics', ...command, 'users wait', 'disk', 'way back'];
  const align = titles.map((title) => (['mode', 'way back'].includes(title) ? 'left' : 'right'));
  const rows = [
    { columns: titles.map((title) => tone('dim', title)), align },
    ...report.modes
      .filter(({ outcome }) => outcome === 'passed')
      .map((mode) => ({ columns: columnsOf(mode, report), align })),
  ];
  const others = report.modes.filter(({ outcome }) => outcome !== 'passed');
  return [
    ...heading(style, 'Modes'),
    ...(rows.length > 1 ? layoutTable(style, rows) : []),
    ...others.flatMap((each) => flow(style, [notPassedWords(each)], 4, ['  '])),
    ...(report.carriesStatistics
      ? []
      : flow(
          style,
          ['Users wait for the first stage of the statistics, too: without them plans are bad.'],
          2,
          ['  '],
        )),
  ];
}

function columnsOf(mode: ModeSection, { recommendation, command }: UpgradeReport): Span[] {
  const of = (...names: UpgradePhase['name'][]) =>
    formatDuration(
      mode.phases
        .filter(({ name }) => names.includes(name))
        .reduce((sum, { durationMs }) => sum + durationMs, 0),
    );
  const chosen = mode.mode === recommendation?.mode;
  return [
    chosen ? tone('strong', `${mode.mode} *`) : mode.mode,
    of('pg_upgrade'),
    of('start'),
    of('first statistics', 'statistics'),
    ...(command === null ? [] : [of('command')]),
    tone('strong', formatDuration(mode.downtimeMs ?? 0)),
    mode.peakBytes === null ? '?' : formatBytes(mode.peakBytes),
    wayBackWords(mode),
  ];
}

function stepLines({ modes, recommendation }: UpgradeReport, style: TextStyle): string[] {
  const chosen = modes.find(({ mode }) => mode === recommendation?.mode);
  const steps = chosen?.phases.find(({ name }) => name === 'pg_upgrade')?.steps ?? [];
  if (!chosen || steps.length === 0) return [];
  const rows = steps.map(({ name, durationMs }) => ({
    columns: [name, formatDuration(durationMs)],
    align: ['left', 'right'] as ('left' | 'right')[],
  }));
  return [...heading(style, `The time of --${chosen.mode}`), ...layoutTable(style, rows)];
}

/** What the command that belongs to the upgrade sent, with its locks: there is no other place for them. */
function commandSections({ command }: UpgradeReport, style: TextStyle): string[][] {
  if (command === null) return [];
  const sent = { statements: command.statements, schema: null };
  return [statementsText(sent, { ...style, verbose: true }), failureSection(sent, style)];
}
