import { formatDuration, listed, plural } from '../../format.ts';
import { timeWords } from '../../hazards/evidence.ts';
import { longestLocks } from '../../hazards/held-locks.ts';
import type { Hazard, Report } from '../../model/report.ts';
import { saferFormHint } from '../proposal-phrases.ts';
import { flow, marks, type TextStyle, type Tone, tone } from '../text-layout.ts';
import { andMore, heading, messageText } from './parts-text.ts';

const LISTED = 8;
const LISTED_PLACES = 6;
/** Findings of one transaction that are worth a title. */
const TOGETHER = 3;
const SEVERITIES: Hazard['severity'][] = ['error', 'warning', 'notice'];
const TONES: Record<Hazard['severity'], Tone> = { error: 'bad', warning: 'warning', notice: 'strong' };

export function hazardsText(report: Report, style: TextStyle): string[] {
  if (report.hazards.length === 0) return [];
  const sorted = alike(report.hazards).toSorted(([one], [other]) => rank(one) - rank(other));
  const said = new Set<string>();
  const hint = saferFormHint(report);
  return [
    ...heading(style, 'Hazards', summary(report.hazards)),
    ...byTransaction(sorted.slice(0, LISTED), report).flatMap(({ title, groups }) => [
      ...(title === null ? [] : flow(style, [messageText(style, title)], 4, ['  '])),
      ...groups.flatMap((group) => hazardLines(group, said, style)),
    ]),
    ...andMore(style, sorted.slice(LISTED).flat().length),
    ...(hint === null ? [] : flow(style, [hint], 4, ['  '])),
    ...flow(
      style,
      [
        tone(
          'dim',
          `To explain a hazard: safemigrate explain CODE${style.verbose ? '' : '; all of the report: --verbose'}`,
        ),
      ],
      4,
      ['  '],
    ),
  ];
}

interface HazardBlock {
  /** What the findings of one transaction have in common; null for others. */
  readonly title: string | null;
  readonly groups: readonly Group[];
}

/** Puts the findings of one transaction together, at the place of the worst of them. */
function byTransaction(groups: readonly Group[], report: Report): HazardBlock[] {
  const transactions = new Map(report.statements.map(({ index, transaction }) => [index, transaction]));
  const blocks = new Map<string, { transaction: number | undefined; groups: Group[] }>();
  for (const [place, group] of groups.entries()) {
    const [{ statement, allowed }, ...others] = group;
    const transaction = others.length > 0 || statement === null ? undefined : transactions.get(statement);
    const key = transaction === undefined ? `alone ${place}` : `${transaction} ${allowed}`;
    const block = blocks.get(key);
    if (block) block.groups.push(group);
    else blocks.set(key, { transaction, groups: [group] });
  }
  return [...blocks.values()].map(({ transaction, groups }) => ({
    title:
      transaction === undefined || groups.length < TOGETHER ? null : transactionTitle(transaction, report),
    groups,
  }));
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

type Group = [Hazard, ...Hazard[]];

/** Groups the same hazard on several tables, so that it is shown once with the names of the others. */
function alike(hazards: Hazard[]): Group[] {
  const groups = new Map<string, Group>();
  for (const hazard of hazards) {
    const { code, severity, allowed } = hazard;
    const key = JSON.stringify([code, severity, allowed]);
    const group = groups.get(key);
    if (group) group.push(hazard);
    else groups.set(key, [hazard]);
  }
  return [...groups.values()];
}

/** Sorts by severity, and hazards that the policy allows to the end. */
function rank(hazard: Hazard): number {
  return SEVERITIES.indexOf(hazard.severity) + (hazard.allowed ? SEVERITIES.length : 0);
}

function summary(hazards: Hazard[]): string {
  const against = hazards.filter((hazard) => !hazard.allowed);
  const counts = SEVERITIES.map((severity) => ({
    severity,
    count: against.filter((hazard) => hazard.severity === severity).length,
  }));
  const words = counts.filter(({ count }) => count > 0).map(({ severity, count }) => plural(count, severity));
  const allowed = hazards.length - against.length;
  return [...words, ...(allowed > 0 ? [`${allowed} allowed by the policy`] : [])].join(', ');
}

/** @param said evidence that stands above already: that of one transaction is often the same. */
function hazardLines([hazard, ...others]: Group, said: Set<string>, style: TextStyle): string[] {
  const symbols = { error: marks(style).fail, warning: marks(style).warning, notice: marks(style).notice };
  const severity = `${symbols[hazard.severity]} ${hazard.severity.toUpperCase()}`;
  const where = [
    hazard.relation === null ? '' : `  ${hazard.relation}`,
    hazard.statement === null ? '' : `  statement ${hazard.statement}`,
    hazard.allowed ? '  (allowed by the policy)' : '',
  ];
  return [
    ...flow(style, [tone('strong', hazard.code), ...where], 4, [
      '  ',
      tone(hazard.allowed ? 'strong' : TONES[hazard.severity], severity),
      '  ',
    ]),
    ...flow(style, [messageText(style, hazard.message)], 4),
    ...(style.verbose || hazard.severity !== 'notice' ? reasonLines(hazard, said, style) : []),
    ...labelled(style, 'Also: ', places(others)),
  ];
}

function reasonLines({ evidence, advice }: Hazard, said: Set<string>, style: TextStyle): string[] {
  const isNew = !said.has(evidence);
  said.add(evidence);
  return [...(isNew ? labelled(style, 'Evidence: ', evidence) : []), ...adviceLines(style, advice)];
}

/** The other places with the same hazard. */
function places(others: Hazard[]): string {
  const names = others.map(
    ({ relation, statement }) =>
      relation ?? (statement === null ? 'another place' : `statement ${statement}`),
  );
  return listed(names, { atMost: LISTED_PLACES });
}

/** A sentence, and below it SQL with one statement a line. */
function adviceLines(style: TextStyle, advice: string): string[] {
  const [sentence = '', ...sql] = advice.split('\n');
  return [
    ...labelled(style, 'Do: ', sentence),
    ...sql.flatMap((statement) => flow(style, [messageText(style, statement)], 10, ['      '])),
  ];
}

function labelled(style: TextStyle, label: string, text: string): string[] {
  return text === '' ? [] : flow(style, [messageText(style, text)], 6, ['    ', tone('dim', label)]);
}
