import { formatBytes, plural } from '../../format.ts';
import { isolatedFrom } from '../../hazards/attempt-words.ts';
import { withoutTrial } from '../../hazards/evidence.ts';
import { acceptFlag } from '../../hazards/policy.ts';
import type { Hazard, Report, StatementSection } from '../../model/report.ts';
import { adviceParts } from '../advice.ts';
import { sizesWords, unprovedWords } from '../phrases.ts';
import { statementAt } from '../place.ts';
import { tone } from '../text-layout.ts';

import {
  ACCEPT,
  ADVICE,
  type Block,
  type FactList,
  factList,
  type Item,
  type ItemList,
  type Note,
  named,
  type PerhapsFact,
  type Phrase,
  type Section,
  sql,
} from '../view/section.ts';
import { cutToWidth } from '../width.ts';
import { applyView } from './apply-view.ts';
import { checkViews } from './checks-view.ts';
import { dataWords, timeTaken, usersWords } from './first-answers.ts';
import { alike, type HazardGroup, hazardCounts, MARKS, otherPlaces, saferFormHint } from './hazards-view.ts';
import { loadDetails } from './load-view.ts';
import { proposalWords } from './proposal-view.ts';
import { queriesView } from './queries-view.ts';
import { noteItems, restoredPhrase, shellLine } from './run-view.ts';
import { schemaPhrase } from './schema-view.ts';
import { swapView } from './swap-view.ts';
import { cleanupView, targetChangesView, targetSessionsView } from './target-view.ts';
import {
  doubtItems,
  errorWords,
  impliedReason,
  nextWords,
  reasonsWithoutHazards,
  serverError,
} from './verdict-view.ts';

const LISTED = 5;
/** Characters of a statement that is part of an advice. */
const LONGEST_STATEMENT = 80;

/**
 * Sections that a person reads at first, at a terminal of 24 lines: the outcome, what to fix, and first answers. Everything else is in
 * the whole report.
 */
export function screenView(report: Report): Section[] {
  const { verdict, apply } = report;
  const changed = [...applyView(report), ...swapView(report)];
  const alarms = [...targetChangesView(report), ...targetSessionsView(report)];
  // It was shown with the question.
  const isSeen = changed.length > 0 && (verdict.pass || apply?.forced != null);
  return [
    ...changed,
    ...alarms,
    ...(isSeen ? [outcomeOfRehearsal(report)] : rehearsalScreen(report)),
    ...cleanupView(report),
  ];
}

function outcomeOfRehearsal({ verdict, hazards }: Report): Section {
  const counts = hazardCounts(hazards) || 'no hazards';
  const summary = `${verdict.pass ? 'passed' : 'did not pass'}, ${counts}`;
  return { id: 'verdict', title: 'Rehearsal', summary, folds: 'never', importance: 5, blocks: [] };
}

/** Shows the rehearsal alone, without the outcome of an apply or a swap. */
export function rehearsalScreen(report: Report): Section[] {
  const part = (id: string, blocks: readonly Block[]): Section => ({
    id,
    title: '',
    folds: 'never',
    importance: 5,
    blocks,
  });
  return [headline(report), part('findings', findings(report)), part('answers', [answers(report)])];
}

function headline(report: Report): Section {
  const { verdict, hazards, command, apply, swap } = report;
  const failure = serverError(report);
  const reasons = reasonsWithoutHazards(verdict);
  const counts = hazardCounts(hazards);
  const [first = verdict.pass ? 'no hazards' : impliedReason(report), ...others] =
    failure !== undefined
      ? [errorWords(failure), ...reasons]
      : counts === ''
        ? reasons
        : [counts, ...reasons];
  const passed = verdict.pass ? 'passed' : 'did not pass';
  return {
    id: 'verdict',
    title: apply === null && swap === null ? passed : `The rehearsal ${passed}`,
    summary: first,
    aside: [tone('dim', shellLine(command.argv))],
    outcome: verdict.pass ? 'good' : 'bad',
    folds: 'never',
    importance: 10,
    blocks: [
      {
        kind: 'items',
        items: [
          ...(failure === undefined ? [] : [failureItem(report, failure)]),
          ...others.map((text): Item => ({ mark: 'bad', text })),
          ...doubtItems(report),
          ...noteItems(report),
        ],
      },
    ],
  };
}

/** The failed statement behind the headline. */
function failureItem(report: Report, { index, sql: text, error }: StatementSection): Item {
  const { detail = null, hint = null } = error ?? {};
  return {
    mark: 'bad',
    text: [statementAt(report, index)],
    notes: [
      { text: [sql(text)], cut: true },
      ...(detail === null ? [] : [{ label: 'Detail', text: detail }]),
      ...(hint === null ? [] : [{ label: 'Hint', text: hint }]),
    ],
  };
}

/** Errors and warnings with all that is needed to fix them; notices in a line each. */
function findings(report: Report): Block[] {
  const open = alike(report.hazards.filter(({ allowed }) => !allowed));
  const of = (severity: Hazard['severity']) => open.filter(([hazard]) => hazard.severity === severity);
  const grave = [...of('error'), ...of('warning')];
  const notices = of('notice');
  const hint = saferFormHint(report);
  const width = Math.max(0, ...notices.map(([{ code }]) => code.length));
  return [
    ...more(
      { kind: 'items', items: grave.slice(0, LISTED).map((group) => graveItem(group, report)) },
      grave.length - LISTED,
    ),
    ...more(
      { kind: 'items', items: notices.slice(0, LISTED).map((group) => noticeItem(group, width)) },
      notices.length - LISTED,
    ),
    ...(hint === null ? [] : [{ kind: 'paragraph', text: [tone('dim', hint)] } satisfies Block]),
  ];
}

/** The list, and how many others the whole report has. */
function more(list: ItemList, missing: number): ItemList[] {
  const others = `and ${plural(missing, 'more finding')}: safemigrate show`;
  return [list, ...(missing > 0 ? [{ kind: 'items', items: [{ text: others }] } satisfies ItemList] : [])];
}

function graveItem(group: HazardGroup, report: Report): Item {
  const [hazard, ...others] = group;
  const { code, severity, relation, statement, message, evidence, advice } = hazard;
  const text = report.statements.find(({ index }) => index === statement)?.sql;
  const also = otherPlaces(hazard, others);
  const accepted = acceptFlag(others.length === 0 ? hazard : { code, relation: null });
  const notes: Note[] = [
    ...(text === undefined ? [] : [{ text: [sql(text)], cut: true } satisfies Note]),
    {
      text: briefly(
        [message.replace(/\.$/, ''), withoutTrial(evidence)].filter((words) => words !== '').join('; '),
      ),
    },
    ...(also === '' ? [] : [{ label: 'Also', text: also }]),
    ...(advice === '' ? [] : adviceNotes(advice)),
    { label: ACCEPT, text: accepted },
  ];
  const place = statement === null ? relation : statementAt(report, statement);
  return {
    mark: MARKS[severity],
    text: [named(place === null ? code : `${code}  `), place ?? ''],
    notes,
  };
}

/** The sentence and the first statement that it leads to: `Instead:` alone says nothing. The whole report has the others. */
function adviceNotes(advice: string): Note[] {
  const { advice: sentence, sql: statements } = adviceParts(advice);
  const [first, ...others] = statements;
  const more = others.length === 0 ? '' : ` (and ${others.length} more)`;
  const statement: Phrase =
    first === undefined ? [] : [' ', sql(cutToWidth(first, LONGEST_STATEMENT, '…')), more];
  return [{ label: ADVICE, text: [briefly(sentence), ...statement] }];
}

function noticeItem([{ code, message }, ...others]: HazardGroup, width: number): Item {
  const also = others.length === 0 ? '' : ` (and ${others.length} more)`;
  return { mark: 'notice', text: [named(code.padEnd(width + 2)), `${briefly(message)}${also}`], cut: true };
}

/** Names in the schema that most tables are in are shorter without it. */
function briefly(text: string): string {
  return text.replaceAll(/(?<![\w".])public\./g, '');
}

function answers(report: Report): FactList {
  const { load, proposal, script, hazards, command, verdict } = report;
  const isExplained =
    verdict.pass ||
    serverError(report) !== undefined ||
    hazards.some(({ severity, allowed }) => severity === 'error' && !allowed);
  return factList([
    ['Users', briefly(usersWords(report))],
    ['Load', load && loadDetails(load).join('; ')],
    ['Schema', schemaPhrase(report, briefly)],
    ['Data', briefly(dataWords(report))],
    ...[...queriesView(report), ...checkViews(report)].map(
      ({ title, summary = '' }): PerhapsFact => [title, summary],
    ),
    ['Safer', proposal && proposalWords(proposal).slice(0, 2).join('; ')],
    ['Script', script && (script.file === null ? `none: ${script.reason}` : `written to ${script.file}`)],
    ['Time', timeTaken(report)],
    ['Sizes', sizesWords(report)],
    ['Sandbox', command.exitCode === 0 ? null : isolatedFrom(command.isolation)],
    ['Next', isExplained ? null : nextWords(report)],
    ['Target', targetPhrase(report)],
  ]);
}

function targetPhrase(report: Report): Phrase {
  const { database, host, port, serverVersion, sizeBytes, changes, origin } = report.target;
  if (origin === 'dump') return restoredPhrase(report);
  const unproved = unprovedWords(report);
  const others = changes.filter(({ madeBy }) => madeBy === 'others').map(({ what }) => what);
  return [
    named(database),
    ` on ${host}:${port}, PostgreSQL ${serverVersion}, ${formatBytes(sizeBytes)}; `,
    unproved === undefined ? 'unchanged' : tone('warning', 'could not be verified, see above'),
    ...(others.length === 0 ? [] : [`; changed by other sessions: ${others.join(', ')}`]),
  ];
}
