import { formatCount, formatDuration, formatTime, listed, plural } from '../../format.ts';
import type { ApplySection, Report } from '../../model/report.ts';
import { commandWords } from '../phrases.ts';
import {
  type FactList,
  factList,
  type Item,
  named,
  ON_PAGES,
  type Phrase,
  type Section,
  sentences,
  sql,
} from '../view/section.ts';
import { duringView } from './guardrails-view.ts';
import { hiddenLiterals } from './schema-view.ts';
import { failureItems } from './statements-view.ts';

const LISTED = 10;
const LISTED_TIMES = 5;

/** The outcome of `safemigrate apply`, beginning with the state of the target. */
export function applyView(report: Report): Section[] {
  const { apply } = report;
  if (apply === null) return [];
  return [
    {
      id: 'apply',
      ...outcomeOf(apply, report),
      folds: 'never',
      importance: 10,
      blocks: [sentences(apply.reasons, { listed: LISTED }), factsOf(apply)],
      parts: [
        ...attemptsView(apply),
        ...failedView(apply),
        ...effectsView(apply),
        ...duringView(apply.during),
        ...differencesView(apply),
        ...timesView(apply),
        ...wayBackView(apply, report.run.redacted === true),
      ],
    },
  ];
}

type Outcome = Required<Pick<Section, 'title' | 'summary' | 'outcome'>>;

/** Title of a page or a section about an apply. */
export function outcomeOf({ outcome, differences }: ApplySection, { target, hazards }: Report): Outcome {
  const name = named(target.database);
  const inPart = hazards.some(({ code }) => code === 'ERRORS_SWALLOWED');
  switch (outcome) {
    case 'applied':
      return inPart
        ? {
            title: 'Applied in part',
            outcome: 'warning',
            summary: [
              'statements failed on ',
              name,
              ' as in the rehearsal, although the command ended with exit code 0',
            ],
          }
        : differences.length > 0
          ? { title: 'Applied', outcome: 'warning', summary: [name, ' differs from the rehearsal'] }
          : { title: 'Applied', outcome: 'good', summary: [name, ' matches the rehearsal'] };
    case 'refused':
      return { title: 'Not applied', outcome: 'bad', summary: [name, ' was not changed'] };
    case 'failed':
      return {
        title: 'Apply failed',
        outcome: 'bad',
        summary: [name, ' is as before: the command ran there, and everything was rolled back'],
      };
    case 'partly':
      return {
        title: 'The target is not as asked',
        outcome: 'alarm',
        summary: ['a person must look at ', name, ` on ${target.host}:${target.port} now`],
      };
  }
}

function factsOf(apply: ApplySection): FactList {
  const { command, startedAt, forced, receipt, rehearsal, bookkeeping, schemaEqual, leftovers } = apply;
  return factList([
    [
      'Command',
      command && `${commandWords(command)}${startedAt === null ? '' : `, from ${formatTime(startedAt)}`}`,
    ],
    ['Forced', forced && `the rehearsal had not passed: ${forced}`],
    [
      'Receipt',
      receipt &&
        `instead of a rehearsal, ${formatDuration(receipt.ageMs)} old, ${receipt.signed ? 'signed' : 'not signed, only a checksum'}`,
    ],
    ['Basis', receipt && `rehearsed by run ${rehearsal}`],
    ['History', bookkeeping && historyWords(bookkeeping)],
    ['Schema', schemaEqual === null ? null : schemaEqual ? 'as rehearsed' : 'not as rehearsed'],
    [
      'Left',
      leftovers.length === 0
        ? null
        : `left behind: ${listed(leftovers.map(({ kind, object }) => `${kind} ${object}`))}`,
    ],
  ]);
}

/** Says whether the migration tool's own table agrees with what was committed. */
function historyWords({ agrees, unnoted }: NonNullable<ApplySection['bookkeeping']>): string {
  if (agrees) return "the migration tool's own table agrees with what was committed";
  const which = listed(unnoted.map(String), { atMost: LISTED });
  return unnoted.length === 1
    ? `the migration tool's own table lacks statement ${which}, which was committed: another run would send it again`
    : `the migration tool's own table lacks statements ${which}, which were committed: another run would send them again`;
}

/** Nothing if the command ran only once. */
function attemptsView({ attempts, statements }: ApplySection): Section[] {
  if (attempts.length < 2) return [];
  const sqlOf = (index: number) => statements.find((each) => each.index === index)?.sql ?? '';
  const items = attempts.map((attempt, at): Item => {
    const { failure, pausedMs } = attempt;
    const pause = pausedMs === null ? '' : `; next attempt after a pause of ${formatDuration(pausedMs)}`;
    const failed = failure && sqlOf(failure.statement);
    return {
      text: [`${at + 1}. ${attemptWords(attempt)}${pause}`, ...(failed ? [': ', sql(failed)] : [])],
    };
  });
  return [
    part('attempts', 'Attempts', {
      summary: `${plural(attempts.length, 'run')} of the command (--retries)`,
      importance: 8,
      blocks: [{ kind: 'items', items, listed: LISTED }],
    }),
  ];
}

function attemptWords({
  exitCode,
  signal,
  durationMs,
  failure,
  committed,
}: ApplySection['attempts'][number]): string {
  if (exitCode === 0) return `succeeded in ${formatDuration(durationMs)}`;
  const left =
    committed.length === 0
      ? 'everything was rolled back'
      : `${plural(committed.length, 'statement')} committed, or perhaps committed`;
  const what = failure === null ? 'failed' : `statement ${failure.statement} ${FAILED_OF[failure.cause]}`;
  const end = signal ?? failure?.sqlstate ?? `exit code ${exitCode}`;
  return `${what} (${end}) after ${formatDuration(durationMs)}; ${left}`;
}

const FAILED_OF = {
  lock: 'did not get its lock',
  deadlock: 'was the victim of a deadlock',
  watchdog: 'blocked others for too long',
  other: 'failed',
} as const;

function failedView({ statements }: ApplySection): Section[] {
  const items = failureItems(statements);
  if (items.length === 0) return [];
  return [
    part('failed-on-target', 'Failed on the target', {
      summary: plural(items.length, 'statement'),
      importance: 9,
      blocks: [{ kind: 'items', items, listed: LISTED }],
    }),
  ];
}

/** Effects, first the ones that a person must look at. */
const EFFECTS = {
  unknown: { tag: 'may have been committed', mark: 'bad' },
  prepared: { tag: 'prepared, not committed', mark: 'bad' },
  committed: { tag: 'committed', mark: 'good' },
  'rolled back': { tag: 'not committed', mark: 'notice' },
} as const;

/** If all went well, it need not be read line by line. */
function effectsView({ outcome, committed, rolledBack }: ApplySection): Section[] {
  const rank = ({ outcome }: ApplySection['committed'][number]) => Object.keys(EFFECTS).indexOf(outcome);
  const all = [...committed, ...rolledBack].sort(
    (one, other) => rank(one) - rank(other) || one.statement - other.statement,
  );
  if (all.length === 0) return [];
  const applied = outcome === 'applied';
  return [
    {
      ...part('effects', 'Effects on the target', {
        summary: `${committed.length} of ${plural(all.length, 'writing statement')} committed, or perhaps committed`,
        importance: 9,
        blocks: [
          {
            kind: 'items',
            listed: 2 * LISTED,
            items: all.map((each) => ({
              ...EFFECTS[each.outcome],
              text: [`${each.statement}. `, sql(each.sql)],
            })),
          },
        ],
      }),
      folds: applied ? 'always' : 'never',
      ...(applied ? { shownIn: ON_PAGES } : {}),
    },
  ];
}

function differencesView({ differences }: ApplySection): Section[] {
  if (differences.length === 0) return [];
  return [
    part('differences', 'Differences from the rehearsal', {
      summary: String(differences.length),
      importance: 9,
      blocks: [sentences(differences, { listed: LISTED })],
    }),
  ];
}

/** Rehearsed and real times; the slowest statements on the target come first. */
function timesView({ comparedTimes }: ApplySection): Section[] {
  if (comparedTimes.length === 0) return [];
  const sum = (pick: (each: (typeof comparedTimes)[number]) => number) =>
    formatDuration(comparedTimes.reduce((total, each) => total + pick(each), 0));
  const longest = Math.max(1, ...comparedTimes.flatMap((each) => [each.rehearsedMs, each.appliedMs]));
  const slowest = comparedTimes.toSorted((one, other) => other.appliedMs - one.appliedMs);
  return [
    {
      ...part('times', 'Times', {
        summary:
          `${sum(({ rehearsedMs }) => rehearsedMs)} rehearsed, ` +
          `${sum(({ appliedMs }) => appliedMs)} on the target (${plural(comparedTimes.length, 'statement')})`,
        importance: 5,
        blocks: [
          {
            kind: 'table',
            listed: LISTED_TIMES,
            columns: [
              { title: '#', align: 'right' },
              { title: 'rehearsed', align: 'right' },
              { title: 'on the target', align: 'right' },
              { title: 'rows', align: 'right' },
              { title: 'statement' },
            ],
            rows: slowest.map(
              ({ applied, rehearsedMs, appliedMs, rehearsedRows, appliedRows, sql: text }) => [
                String(applied),
                { text: formatDuration(rehearsedMs), bars: [{ share: rehearsedMs / longest, before: true }] },
                { text: formatDuration(appliedMs), bars: [{ share: appliedMs / longest }] },
                rowsWords(rehearsedRows, appliedRows),
                [sql(text)],
              ],
            ),
          },
        ],
      }),
      folds: 'in-comment',
    },
  ];
}

function rowsWords(rehearsed: number | null, applied: number | null): string {
  if (applied === null) return '';
  const now = formatCount(applied);
  return rehearsed === null || rehearsed === applied ? now : `${now}, rehearsed ${formatCount(rehearsed)}`;
}

/** At a terminal only if somebody needs it now. */
function wayBackView({ outcome, wayBack }: ApplySection, redacted: boolean): Section[] {
  if (wayBack === null) return [];
  return [
    {
      ...part('way-back', 'Rollback SQL of committed changes', {
        summary: 'restores the schema that the target had before',
        importance: 8,
        blocks: [...hiddenLiterals(wayBack, redacted), { kind: 'script', sql: wayBack, listed: 2 * LISTED }],
      }),
      ...(outcome === 'partly' ? {} : { shownIn: ON_PAGES }),
    },
  ];
}

function part(
  id: string,
  title: string,
  content: Pick<Section, 'importance' | 'blocks'> & { readonly summary: Phrase },
): Section {
  return { id, title, folds: 'never', ...content };
}
