import { formatDuration, listed, plural } from '../../format.ts';
import { timeWords } from '../../hazards/evidence.ts';
import { longestLocks } from '../../hazards/held-locks.ts';
import { acceptFlag } from '../../hazards/policy.ts';
import type { Hazard, Report } from '../../model/report.ts';
import { statementAt } from '../place.ts';
import { tone } from '../text-layout.ts';
import {
  ACCEPT,
  AS_TEXT,
  findingNotes,
  type Item,
  type ItemMark,
  type Note,
  named,
  ON_PAGES,
  type Section,
  sql,
} from '../view/section.ts';

const LISTED_PLACES = 6;
/** Findings of one transaction that are worth a title. */
const TOGETHER = 3;
const SEVERITIES: readonly Hazard['severity'][] = ['error', 'warning', 'notice'];
export const MARKS: Readonly<Record<Hazard['severity'], ItemMark>> = {
  error: 'bad',
  warning: 'warning',
  notice: 'notice',
};

/** A hazard, and the same one in other places. */
export type HazardGroup = [Hazard, ...Hazard[]];

/** Hazards by severity. At a terminal, the same one in several places is shown once, with the names of the others. */
export function hazardsView(report: Report): Section[] {
  const { hazards } = report;
  if (hazards.length === 0) return [];
  const hint = saferFormHint(report);
  const explain = [tone('dim', 'To explain a hazard: safemigrate explain CODE')];
  return [
    {
      id: 'hazards',
      title: 'Hazards',
      summary: hazardCounts(hazards),
      folds: 'never',
      importance: 10,
      blocks: [
        { kind: 'items', items: itemsOf(alike(hazards), report), shownIn: AS_TEXT },
        {
          kind: 'items',
          items: itemsOf(
            hazards.map((hazard): HazardGroup => [hazard]),
            report,
          ),
          shownIn: ON_PAGES,
        },
        ...(hint === null ? [] : [{ kind: 'paragraph', text: hint } as const]),
        { kind: 'paragraph', text: explain, shownIn: AS_TEXT },
      ],
    },
  ];
}

export function hazardCounts(hazards: readonly Hazard[]): string {
  const against = hazards.filter((hazard) => !hazard.allowed);
  const counts = SEVERITIES.map((severity) => ({
    severity,
    count: against.filter((hazard) => hazard.severity === severity).length,
  }));
  const words = counts.filter(({ count }) => count > 0).map(({ severity, count }) => plural(count, severity));
  const allowed = hazards.length - against.length;
  return [...words, ...(allowed > 0 ? [`${allowed} allowed by the policy`] : [])].join(', ');
}

/** Groups the same hazard on several tables. */
export function alike(hazards: readonly Hazard[]): HazardGroup[] {
  const groups = new Map<string, HazardGroup>();
  for (const hazard of hazards) {
    const { code, severity, allowed } = hazard;
    const key = JSON.stringify([code, severity, allowed]);
    const group = groups.get(key);
    if (group) group.push(hazard);
    else groups.set(key, [hazard]);
  }
  return [...groups.values()];
}

/** Puts the findings of one transaction together, at the place of the worst of them; there, evidence is given once. */
function itemsOf(groups: readonly HazardGroup[], report: Report): Item[] {
  const transactions = new Map(report.statements.map(({ index, transaction }) => [index, transaction]));
  const blocks = new Map<string, { transaction: number | undefined; groups: HazardGroup[] }>();
  const sorted = groups.toSorted(([one], [other]) => rankOf(one) - rankOf(other));
  for (const [place, group] of sorted.entries()) {
    const [{ statement, allowed }, ...others] = group;
    const transaction = others.length > 0 || statement === null ? undefined : transactions.get(statement);
    const key = transaction === undefined ? `alone ${place}` : `${transaction} ${allowed}`;
    const block = blocks.get(key);
    if (block) block.groups.push(group);
    else blocks.set(key, { transaction, groups: [group] });
  }
  return [...blocks.values()].flatMap(({ transaction, groups }) => {
    const said = new Set<string>();
    const items = groups.map((group) => itemOf(group, said, report));
    return transaction === undefined || groups.length < TOGETHER
      ? items
      : [{ text: transactionTitle(transaction, report), items }];
  });
}

/** Hazards that the policy allows stand at the end. */
function rankOf({ severity, allowed }: Hazard): number {
  return SEVERITIES.indexOf(severity) + (allowed ? SEVERITIES.length : 0);
}

/** `In one transaction of 6.6 s, ACCESS EXCLUSIVE on public.orders for 6.5 s:`. */
function transactionTitle(transaction: number, report: Report): string {
  const section = report.transactions.find((each) => each.transaction === transaction);
  const took = section?.endedAt
    ? ` of ${formatDuration(Date.parse(section.endedAt) - Date.parse(section.startedAt))}`
    : '';
  const statements = report.statements.filter((statement) => statement.transaction === transaction);
  const [lock] = longestLocks(statements, report.schema);
  const held = lock ? `, ${lock.mode} on ${lock.relation}` : '';
  const during = lock && lock.heldMs !== null ? ` for ${timeWords(lock.heldMs, lock.atProductionSize)}` : '';
  return `In one transaction${took}${held}${during}:`;
}

/** @param said evidence that stands above already. */
function itemOf([hazard, ...others]: HazardGroup, said: Set<string>, report: Report): Item {
  const { code, severity, relation, statement, message, evidence, advice, allowed } = hazard;
  const isNew = !said.has(evidence);
  said.add(evidence);
  const reasons = findingNotes(isNew ? evidence : '', advice);
  const also = otherPlaces(hazard, others);
  return {
    mark: MARKS[severity],
    tag: severity,
    text: [
      named(code),
      ...(relation === null ? [] : [' on ', named(relation)]),
      ...(statement === null ? [] : [', ', statementAt(report, statement)]),
      ...(allowed ? [' (allowed by the policy)'] : []),
    ],
    notes: [
      { text: message },
      ...statementNote(report, statement),
      ...reasons,
      ...(also === '' ? [] : [{ label: 'Also', text: also }]),
      ...acceptNote(hazard),
    ],
  };
}

/** The statement beside its finding: a reviewer need not look for it. */
function statementNote({ statements }: Report, index: number | null): Note[] {
  const found = statements.find((each) => each.index === index);
  return found === undefined ? [] : [{ text: [sql(found.sql)], shownIn: ON_PAGES }];
}

function acceptNote(hazard: Hazard): Note[] {
  if (hazard.allowed || hazard.severity === 'notice') return [];
  return [{ label: ACCEPT, text: '', sql: [acceptFlag(hazard)], language: 'sh' }];
}

/** The other places with the same hazard; of the same relation, what else is said of it. */
export function otherPlaces(first: Hazard, others: readonly Hazard[]): string {
  const [again, elsewhere] = [true, false].map((same) =>
    others.filter(({ relation }) => (relation !== null && relation === first.relation) === same),
  );
  const names = (elsewhere ?? []).map(
    ({ relation, statement }) =>
      relation ?? (statement === null ? 'another place' : `statement ${statement}`),
  );
  const messages = (again ?? []).map(({ message }) => message);
  return [
    listed(messages, { atMost: LISTED_PLACES, separator: '; ' }),
    listed(names, { atMost: LISTED_PLACES }),
  ]
    .filter((text) => text !== '')
    .join('; ');
}

/** Says, in a rehearsal that was not asked for a safer form, that there may be one; null if there is nothing to say. */
export function saferFormHint({ proposal, run, command, hazards }: Report): string | null {
  const findings = hazards.filter(({ severity, allowed }) => severity !== 'notice' && !allowed);
  const codesOf = (form: Hazard['saferForm']) => [
    ...new Set(findings.filter(({ saferForm }) => saferForm === form).map(({ code }) => code)),
  ];
  const [others, asked] = [codesOf('default'), codesOf('asked')].map((codes) => codes.join(', '));
  if (proposal || run.mode !== 'rehearse' || command.exitCode !== 0 || !(others || asked)) return null;
  const written = 'writes it, if a second clone proves it';
  if (!others) return `Some of this has a safer form (${asked}): --propose out.sql --propose-all ${written}`;
  const more = asked ? `; with --propose-all that of ${asked}, too` : '';
  return `Some of this has a safer form (${others}): --propose out.sql ${written}${more}`;
}
