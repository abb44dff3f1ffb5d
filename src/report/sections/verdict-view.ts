import { formatCount, listed, plural, twoDigits } from '../../format.ts';
import { attemptAdvice, decidingAttempts, TRUST_ADVICE } from '../../hazards/attempt-words.ts';
import { historyCommands } from '../../hazards/empty-history.ts';
import { explainsFailure } from '../../hazards/kinds/failures.ts';
import type { Hazard, Report, StatementSection } from '../../model/report.ts';
import { serviceDoubt, watchedWords } from '../isolation-phrases.ts';
import {
  alarmingChanges,
  commandDid,
  doubtedRowsWords,
  doubtedTimes,
  losingChanges,
  sizesWords,
  unprovedWords,
  untriedWords,
} from '../phrases.ts';
import {
  AS_TEXT,
  type FactList,
  factList,
  type Item,
  ON_PAGES,
  type Section,
  sentences,
} from '../view/section.ts';
import { dataWords, timeTaken, usersWords } from './first-answers.ts';

const REASONS = 20;

/** The verdict with its reasons, and first answers. It is the title of the report unless the run was to change the target. */
export function verdictView(report: Report): Section {
  const { verdict, apply, swap } = report;
  const { pass } = verdict;
  const reasons = reasonsOf(report);
  const given = reasons.length > 0 ? reasons : [impliedReason(report)];
  const failure = serverError(report);
  const [first, ...others] = failure === undefined ? given : [errorWords(failure), ...given];
  const passed = pass ? 'passed' : 'did not pass';
  const sizes = sizesWords(report);
  return {
    id: 'verdict',
    title: apply === null && swap === null ? capital(passed) : `The rehearsal ${passed}`,
    summary: first ?? '',
    outcome: pass ? 'good' : 'bad',
    folds: 'never',
    importance: 10,
    blocks: [
      { kind: 'items', items: doubtItems(report) },
      ...(sizes === undefined ? [] : [{ kind: 'paragraph', text: capital(sizes) } as const]),
      sentences(others, { listed: REASONS }),
      { ...firstAnswers(report), shownIn: AS_TEXT },
    ],
  };
}

/** Doubts about a run in which nothing failed. */
export function doubtItems(report: Report): Item[] {
  const unproved = unprovedWords(report);
  const watched = watchedWords(report);
  const untried = untriedWords(report);
  const clone = serviceDoubt(report);
  const times = doubtedTimes(report);
  const rows = doubtedRowsWords(report);
  return [
    ...(untried === undefined ? [] : [capital(untried)]),
    ...(unproved === undefined ? [] : [`Could not verify that the target is unchanged: ${unproved}`]),
    ...(times === undefined ? [] : [`The times of statements and locks are not known: ${times}`]),
    ...(rows === undefined ? [] : [`The rows of statements are not known: ${rows}`]),
    ...(watched === undefined ? [] : [watched]),
    ...(clone === undefined ? [] : [clone]),
  ].map((text): Item => ({ mark: 'warning', text }));
}

/** The statement that failed last if the command failed: its error says most. */
export function serverError({
  command,
  statements,
}: Pick<Report, 'command' | 'statements'>): StatementSection | undefined {
  return command.exitCode === 0 ? undefined : statements.findLast(({ error }) => error !== null);
}

/** `ERROR: column "x" does not exist (SQLSTATE 42703)`. */
export function errorWords({ error }: Pick<StatementSection, 'error'>): string {
  return error === null ? '' : `ERROR: ${error.message} (SQLSTATE ${error.sqlstate})`;
}

/** First answers on a page, where the findings are shown before them. */
export function answersView(report: Report): Section[] {
  return [
    {
      id: 'answers',
      title: 'In short',
      folds: 'never',
      importance: 10,
      blocks: [firstAnswers(report)],
      shownIn: ON_PAGES,
    },
  ];
}

/** The reasons that are about no hazard; all of them in reports of versions that did not tell them apart. */
export function reasonsWithoutHazards({ reasons, objections }: Report['verdict']): string[] {
  return reasons.filter((_, at) => objections === undefined || objections[at]?.hazard === null);
}

/** The reasons; without the options that accept hazards, which are shown with these. */
function reasonsOf({ hazards, verdict: { reasons, objections } }: Report): readonly string[] {
  return (
    objections?.map(({ code, message, hazard }, at) => {
      if (hazard === null) return reasons[at] ?? message;
      const relation = hazards[hazard]?.relation ?? null;
      return `${code}${relation === null ? '' : ` on ${relation}`}: ${message}`;
    }) ?? reasons
  );
}

function capital(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** The reason if the policy gave none. */
export function impliedReason(report: Report): string {
  const { command, schema, data, verdict } = report;
  if (!verdict.pass) return `the command ${commandDid(command)}`;
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
      : ` ${isExact ? '' : 'About '}${plural(isExact ? gone : twoDigits(gone), 'row')} of its tables ${gone === 1 ? 'is' : 'are'} gone.`;
  const failed = command.swallowedErrors.length;
  const swallowed = failed === 0 ? '' : ` But ${plural(failed, 'statement')} failed in the server.`;
  return `the command succeeded on ${sizeOfClone(report)}.${counted}${lost}${perhaps}${deleted}${swallowed}`;
}

/** Describes the clone for the headline: a clone without all rows has an estimated size. */
function sizeOfClone({ caveats, target }: Pick<Report, 'caveats' | 'target'>): string {
  if (target.origin === 'dump') return 'a restored dump';
  const smaller = caveats.some(({ path, kind }) => path === 'clone.sizeBytes' && kind === 'estimate');
  return smaller ? 'a clone without all of the rows' : 'a full-size clone';
}

function firstAnswers(report: Report): FactList {
  const { apply, swap } = report;
  return factList([
    ['Users', usersWords(report)],
    ['Data', dataWords(report)],
    ['Time', timeTaken(report)],
    // After an apply or a swap, its own lines say what to do.
    ['Next', apply === null && swap === null ? nextWords(report) : null],
  ]);
}

function howToName({ byAddress, rewritten, leftForTls, leftForTrust }: Report['command']): string {
  if (leftForTrust) return TRUST_ADVICE;
  if (byAddress && leftForTls) return 'let the command connect without TLS, as the target does';
  if (leftForTls) return 'let the command take sslmode from its URL or from PGSSLMODE, which are rewritten';
  if (byAddress) return 'read the output of the command: the clone was at every known address of the target';
  if (rewritten.length > 0)
    return 'read what the command itself says; if it reads a file, name that as {safemigrate:config FILE}';
  return 'name the clone: {safemigrate:url} in an argument or a variable, or {safemigrate:config FILE} for its file';
}

/** Says what to do after a rehearsal. */
export function nextWords(report: Report): string {
  const { verdict, hazards, command, target } = report;
  if (alarmingChanges(target).length > 0) return 'a person must look at the target now';
  const open = hazards.filter(({ allowed }) => !allowed);
  if (!verdict.pass) {
    if (command.emptyHistory)
      return `rehearse with the rows of ${listed(command.emptyHistory)}: ${historyCommands(command.emptyHistory, target).join(' && ')}`;
    const attempts = decidingAttempts(command, report.statements);
    if (attempts.length > 0) return attemptAdvice(attempts);
    const failed = serverError(report);
    const deciding =
      open.find((hazard) => explainsFailure(hazard, failed)) ??
      open.find(({ severity }) => severity === 'error');
    if (deciding) return firstOf(deciding);
    if (!command.reachedClone) return howToName(command);
    if (verdict.objections?.some(({ code }) => code === 'NOTHING_APPLIED'))
      return 'check from which folder or build the command reads its migrations';
    return 'fix the error above and rehearse again';
  }
  const found = (['error', 'warning'] as const)
    .map((severity) => ({ severity, count: open.filter((hazard) => hazard.severity === severity).length }))
    .filter(({ count }) => count > 0)
    .map(({ severity, count }) => (count === 1 ? severity : plural(count, severity)));
  const change = target.origin === 'dump' ? 'deploy it' : 'apply it with safemigrate apply';
  return found.length === 0 ? change : `look at the ${found.join(' and the ')} below; then ${change}`;
}

/** The advice in a sentence. Statements that follow it stand with the hazard, further down. */
function firstOf({ advice, code }: Pick<Hazard, 'advice' | 'code'>): string {
  const [sentence = '', ...statements] = advice.split('\n');
  return statements.length === 0 ? sentence : `${sentence.replace(/:$/, '')}: see the statements at ${code}`;
}
