import { listed, plural } from '../../format.ts';
import type { Hazard, Report } from '../../model/report.ts';
import { flow, marks, type TextStyle, type Tone, tone } from '../text-layout.ts';
import { andMore, heading, messageText } from './parts-text.ts';

const LISTED = 8;
const LISTED_PLACES = 6;
const SEVERITIES: Hazard['severity'][] = ['error', 'warning', 'notice'];
const TONES: Record<Hazard['severity'], Tone> = { error: 'bad', warning: 'warning', notice: 'strong' };

export function hazardsText(report: Report, style: TextStyle): string[] {
  if (report.hazards.length === 0) return [];
  const sorted = alike(report.hazards).toSorted(([one], [other]) => rank(one) - rank(other));
  return [
    ...heading(style, 'Hazards', summary(report.hazards)),
    ...sorted.slice(0, LISTED).flatMap((group) => hazardLines(group, style)),
    ...andMore(style, sorted.slice(LISTED).flat().length),
    ...flow(style, [tone('dim', 'To explain a hazard: safemigrate explain CODE')], 4, ['  ']),
  ];
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

function hazardLines([hazard, ...others]: Group, style: TextStyle): string[] {
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
    ...labelled(style, 'Evidence: ', hazard.evidence),
    ...adviceLines(style, hazard.advice),
    ...labelled(style, 'Also: ', places(others)),
  ];
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
