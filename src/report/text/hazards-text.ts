import { listed, plural } from '../../format.ts';
import type { Hazard, Report } from '../../model/report.ts';
import { type HazardGroup, hazardBlocks, rankOf, SEVERITIES } from '../hazard-blocks.ts';
import { saferFormHint } from '../proposal-phrases.ts';
import { flow, marks, type TextStyle, type Tone, tone } from '../text-layout.ts';
import { andMore, heading, messageText } from './parts-text.ts';

const LISTED = 8;
const LISTED_PLACES = 6;
const TONES: Record<Hazard['severity'], Tone> = { error: 'bad', warning: 'warning', notice: 'strong' };

export function hazardsText(report: Report, style: TextStyle): string[] {
  if (report.hazards.length === 0) return [];
  const sorted = alike(report.hazards).toSorted(([one], [other]) => rankOf(one) - rankOf(other));
  const said = new Set<string>();
  const hint = saferFormHint(report);
  return [
    ...heading(style, 'Hazards', summary(report.hazards)),
    ...hazardBlocks(sorted.slice(0, LISTED), report).flatMap(({ title, groups }) => [
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

/** Groups the same hazard on several tables, so that it is shown once with the names of the others. */
function alike(hazards: Hazard[]): HazardGroup[] {
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
function hazardLines([hazard, ...others]: HazardGroup, said: Set<string>, style: TextStyle): string[] {
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
    ...labelled(style, 'Also: ', places(hazard, others)),
  ];
}

function reasonLines({ evidence, advice }: Hazard, said: Set<string>, style: TextStyle): string[] {
  const isNew = !said.has(evidence);
  said.add(evidence);
  return [...(isNew ? labelled(style, 'Evidence: ', evidence) : []), ...adviceLines(style, advice)];
}

/** The other places with the same hazard; of the same relation, what else is said of it. */
function places(first: Hazard, others: Hazard[]): string {
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
