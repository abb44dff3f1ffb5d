import { formatBytes, formatCount, formatDuration, listed, plural } from '../../format.ts';
import type {
  ApplicationSection,
  ModeSection,
  UpgradeObstacle,
  UpgradePhase,
  UpgradeReport,
} from '../../model/upgrade-model.ts';
import { endOfLife } from '../../postgres/end-of-life.ts';
import { tone } from '../text-layout.ts';
import {
  ADVICE,
  ARROW,
  type Block,
  type Cell,
  type Column,
  type Item,
  named,
  type Phrase,
  type Section,
  sql,
} from '../view/section.ts';
import { caveatsView } from './caveats-view.ts';
import { failuresView, statementsView } from './statements-view.ts';
import { cleanupView } from './target-view.ts';

/** The report of an upgrade, for every format. */
export function upgradeView(report: UpgradeReport): Section[] {
  const { command } = report;
  const sent = command && { statements: command.statements, schema: null };
  return [
    verdictView(report),
    ...obstaclesView(report),
    ...modesView(report),
    ...stepsView(report),
    ...(sent ? [...statementsView(sent), ...failuresView(sent)] : []),
    ...caveatsView(report),
    ...cleanupView(report),
  ];
}

function verdictView(report: UpgradeReport): Section {
  const { verdict, recommendation } = report;
  const choice: [string, Phrase][] = recommendation
    ? [['Choose', [tone('strong', `--${recommendation.mode}`), `: ${recommendation.reason}`]]]
    : [];
  return {
    id: 'verdict',
    title: verdict.pass ? 'Passed' : 'Did not pass',
    summary: [tone('strong', upgradeSummary(report))],
    outcome: verdict.pass ? 'good' : 'bad',
    folds: 'never',
    importance: 10,
    blocks: [
      { kind: 'items', items: furtherReasons(report).map((text) => ({ text })) },
      { kind: 'facts', facts: [...choice, ...factsOf(report)] },
    ],
  };
}

/** Returns the first line of the report: the recommendation, or the obstacles that prevent the upgrade. */
export function upgradeSummary(report: UpgradeReport): string {
  const { recommendation, modes, to, verdict } = report;
  const codes = gravest(report);
  if (codes.length > 1) return `${codes.length} obstacles prevent the upgrade: ${codes.join(', ')}`;
  const chosen = modes.find(({ mode }) => mode === recommendation?.mode || mode === 'service');
  if (!verdict.pass || !chosen)
    return verdict.reasons[0] ?? `the upgrade to PostgreSQL ${to.major} would succeed`;
  const wait = formatDuration(chosen.downtimeMs ?? 0);
  return chosen.mode === 'service'
    ? `users would wait at most ${wait} for ${modeName(chosen, report)}`
    : `users would wait ${wait} with ${modeName(chosen, report)}`;
}

/** The mode in words, such as `pg_upgrade --copy`. */
export function modeName({ mode }: Pick<ModeSection, 'mode'>, { clone }: UpgradeReport): string {
  return mode === 'service' ? `the upgrade by ${clone.service?.name}` : `pg_upgrade --${mode}`;
}

/** Lists the reasons that the summary does not have: obstacles, whose reasons come first, are listed with their remedies. */
function furtherReasons(report: UpgradeReport): string[] {
  return report.verdict.reasons.slice(Math.max(1, gravest(report).length));
}

function gravest({ obstacles }: UpgradeReport): string[] {
  return obstacles.filter(({ severity }) => severity === 'error').map(({ code }) => code);
}

function factsOf(report: UpgradeReport): [string, Phrase][] {
  const { from, to, target, clone, command, application } = report;
  const ended = endOfLife(from.version, new Date(report.run.startedAt));
  const copied = `${plural(target.databases, 'database')}, ${formatBytes(target.sizeBytes)}`;
  const ready = clone.service
    ? `a clone by ${clone.service.name}, ready in`
    : `by ${clone.strategy}, recovered and shut down in`;
  return [
    ['Upgrade', [`PostgreSQL ${from.version} `, ARROW, ` ${to.version}, ${target.host}:${target.port}`]],
    ...(ended === undefined ? [] : [['Why', ended] satisfies [string, Phrase]]),
    ['Copy', `${copied}, ${ready} ${formatDuration(clone.durationMs)}; the target went on working`],
    ...target.touched.map((what): [string, Phrase] => ['Touched', what]),
    ...(command ? [['Command', commandPhrase(command)] satisfies [string, Phrase]] : []),
    ...(application ? [['Tried', triedWords(application, report)] satisfies [string, Phrase]] : []),
  ];
}

/** The command that belongs to the upgrade, and how it ended. */
function commandPhrase({ argv, exitCode, durationMs }: NonNullable<UpgradeReport['command']>): Phrase {
  const failed = exitCode === 0 ? '' : `, with exit code ${exitCode ?? 'none'}`;
  return [sql(argv.join(' ')), `, in ${formatDuration(durationMs)}${failed}`];
}

/** The things that were tried on both versions. */
function triedWords(
  { mode, queries, checks, schemaChanges }: ApplicationSection,
  report: UpgradeReport,
): string {
  const what = [
    ...(queries === null
      ? []
      : [`${plural(queries.checked, 'query', 'queries')} of the application (${queries.source})`]),
    ...(checks.length === 0 ? [] : [plural(checks.length, 'check')]),
    ...(schemaChanges === null ? [] : ['the schema']),
  ];
  const after = mode === 'service' ? modeName({ mode }, report) : `--${mode}`;
  return what.length === 0 ? 'nothing on both versions' : `${listed(what)} on both versions, after ${after}`;
}

const MARKS = { error: 'bad', warning: 'warning', notice: 'notice' } as const;

function obstaclesView({ obstacles }: UpgradeReport): Section[] {
  if (obstacles.length === 0) return [];
  return [
    {
      id: 'obstacles',
      title: 'In the way',
      summary: plural(obstacles.length, 'finding'),
      folds: 'never',
      importance: 9,
      blocks: [{ kind: 'items', items: obstacles.map(obstacleItem), listed: obstacles.length }],
    },
  ];
}

function obstacleItem({
  code,
  severity,
  message,
  objects,
  count,
  remedy,
  sql: statements,
}: UpgradeObstacle): Item {
  const others = count - objects.length;
  return {
    mark: MARKS[severity],
    tag: severity,
    text: [named(code), `: ${message}`],
    items: [
      ...objects.map((object) => ({ text: [sql(object)] })),
      ...(others > 0 ? [{ text: `and ${formatCount(others)} more` }] : []),
    ],
    notes: [{ label: ADVICE, text: remedy, sql: statements }],
  };
}

function modesView(report: UpgradeReport): Section[] {
  const { modes, carriesStatistics, clone } = report;
  if (modes.length === 0) return [];
  const passed = modes.filter(({ outcome }) => outcome === 'passed');
  const others = modes.filter(({ outcome }) => outcome !== 'passed');
  const longestPhase = longest(passed.flatMap(({ phases }) => phases));
  const blocks: Block[] = [
    ...(passed.length === 0 && clone.service ? [] : [modeTable(passed, report)]),
    {
      kind: 'items',
      items: others.map(({ mode, outcome, reason }) => ({
        mark: outcome === 'failed' ? 'bad' : 'notice',
        text:
          mode === 'service'
            ? (reason ?? '')
            : `${mode} ${outcome === 'failed' ? 'failed' : 'was not tried'}: ${reason ?? ''}`,
      })),
    },
    ...(carriesStatistics
      ? []
      : [
          {
            kind: 'paragraph',
            text: 'Users wait for the first stage of the statistics, too: without them plans are bad.',
          } satisfies Block,
        ]),
  ];
  const parts = passed.map((mode) => phasesView(mode, longestPhase));
  return [{ id: 'modes', title: 'Modes', folds: 'never', importance: 8, blocks, parts }];
}

function modeTable(passed: readonly ModeSection[], report: UpgradeReport): Block {
  const { recommendation, command, clone } = report;
  // A service does not tell the disk that its upgrade takes, nor how long the server starts.
  const isOurs = !clone.service;
  const longestWait = Math.max(...passed.map(({ downtimeMs }) => downtimeMs ?? 0));
  const right = (title: string): Column => ({ title, align: 'right' });
  return {
    kind: 'table',
    columns: [
      { title: 'mode' },
      ...(isOurs ? ['pg_upgrade', 'start', 'statistics'] : ['upgrade', 'statistics']).map(right),
      ...(command === null ? [] : [right('command')]),
      ...(isOurs ? ['users wait', 'disk'] : ['users wait at most']).map(right),
      { title: 'way back' },
    ],
    rows: passed.map((each): Cell[] => {
      const { mode, phases, downtimeMs, peakBytes } = each;
      const of = (...names: UpgradePhase['name'][]) =>
        formatDuration(
          phases
            .filter(({ name }) => names.includes(name))
            .reduce((sum, { durationMs }) => sum + durationMs, 0),
        );
      const wait = downtimeMs ?? 0;
      return [
        mode === recommendation?.mode ? [tone('strong', `${mode} *`)] : (clone.service?.name ?? mode),
        of('pg_upgrade', 'service'),
        ...(isOurs ? [of('start')] : []),
        of('first statistics', 'statistics'),
        ...(command === null ? [] : [of('command')]),
        { text: [tone('strong', formatDuration(wait))], bars: [{ share: wait / longestWait }] },
        ...(isOurs ? [peakBytes === null ? '?' : formatBytes(peakBytes)] : []),
        wayBackWords(each),
      ];
    }),
  };
}

/** Says if the old cluster can be used again: after `link` until the new server has started, after `swap` not even before. */
export function wayBackWords({ wayBack, mode }: ModeSection): string {
  if (wayBack) return 'yes';
  if (mode === 'service') return 'a backup of before';
  return mode === 'swap' ? 'none' : 'until started';
}

/** Pale bars are of phases in which users work. @param longestMs in all modes, so that their bars compare. */
function phasesView({ mode, phases }: ModeSection, longestMs: number): Section {
  return {
    id: `phases-${mode}`,
    title: `Phases of ${mode}`,
    shownIn: ['html'],
    folds: 'never',
    importance: 4,
    blocks: [
      {
        kind: 'table',
        columns: [{ title: 'phase' }, { title: 'time', align: 'right' }, { title: '' }],
        rows: phases.map(({ name, durationMs, down }) => [
          name,
          { text: formatDuration(durationMs), bars: [{ share: durationMs / longestMs, before: !down }] },
          down ? 'users wait' : 'users work',
        ]),
      },
    ],
  };
}

function stepsView({ modes, recommendation }: UpgradeReport): Section[] {
  const chosen = modes.find(({ mode }) => mode === recommendation?.mode);
  const steps = chosen?.phases.find(({ name }) => name === 'pg_upgrade')?.steps ?? [];
  if (!chosen || steps.length === 0) return [];
  return [
    {
      id: 'steps',
      title: `The longest steps of pg_upgrade --${chosen.mode}`,
      folds: 'in-comment',
      importance: 3,
      blocks: [
        {
          kind: 'table',
          listed: steps.length,
          columns: [{ title: 'step' }, { title: 'time', align: 'right' }],
          rows: steps.map(({ name, durationMs }) => [
            name,
            { text: formatDuration(durationMs), bars: [{ share: durationMs / longest(steps) }] },
          ]),
        },
      ],
    },
  ];
}

function longest(parts: readonly { readonly durationMs: number }[]): number {
  return Math.max(1, ...parts.map(({ durationMs }) => durationMs));
}
