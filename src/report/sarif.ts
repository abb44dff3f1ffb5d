import { KNOWN_HAZARDS } from '../hazards/catalogue.ts';
import type { Hazard, Report } from '../model/report.ts';
import { prose } from './markdown/escape-markdown.ts';
import { type Place, placeOf } from './place.ts';
import { ADVICE, EVIDENCE } from './view/section.ts';
import { visibleJson } from './visible.ts';

const LEVELS = { error: 'error', warning: 'warning', notice: 'note' } as const;

/** Renders the hazards that the policy does not allow as SARIF 2.1.0 for code scanning. */
export function renderSarif(report: Report): string {
  const { run, hazards } = report;
  const open = hazards.filter(({ allowed }) => !allowed);
  const codes = [...new Set(open.map(({ code }) => code))];
  const log = {
    version: '2.1.0',
    runs: [
      {
        tool: {
          driver: {
            name: run.tool.name,
            version: run.tool.version,
            rules: codes.map((id) => ruleOf(id, open)),
          },
        },
        results: open.map((hazard) => resultOf(hazard, codes, placeOf(report, hazard.statement))),
      },
    ],
  };
  return `${visibleJson(JSON.stringify(log, null, 2))}\n`;
}

const SEVERITIES = ['error', 'warning', 'notice'] as const;

/** Describes a hazard as `safemigrate explain` does; its level is the worst that was found. */
function ruleOf(id: string, open: readonly Hazard[]) {
  const found = open.filter(({ code }) => code === id).map(({ severity }) => severity);
  const worst = SEVERITIES.find((severity) => found.includes(severity)) ?? 'warning';
  const defaultConfiguration = { level: LEVELS[worst] };
  const known = KNOWN_HAZARDS.find(({ code }) => code === id);
  if (known === undefined) return { id, shortDescription: { text: words(id) }, defaultConfiguration };
  const { title, condition, effect, safer } = known;
  const parts = [
    ['Found when', condition],
    ['In production', effect],
    ['Safer', safer],
  ] as const;
  return {
    id,
    shortDescription: { text: title },
    fullDescription: { text: effect },
    help: {
      text: parts.map(([label, text]) => `${label}: ${text}`).join('\n'),
      markdown: parts.map(([label, text]) => `**${label}:** ${prose(text)}`).join('\n\n'),
    },
    defaultConfiguration,
  };
}

function resultOf(
  { code, severity, relation, message, evidence, advice }: Hazard,
  codes: readonly string[],
  place: Place | undefined,
) {
  const text = [message, evidence && `${EVIDENCE}: ${evidence}`, advice && `${ADVICE}: ${advice}`]
    .filter(Boolean)
    .join('\n');
  return {
    ruleId: code,
    ruleIndex: codes.indexOf(code),
    level: LEVELS[severity],
    message: { text },
    // Identifies the finding in the next run, even if its line has moved.
    partialFingerprints: { hazard: `${code} ${relation ?? ''}` },
    ...(place === undefined
      ? {}
      : {
          locations: [
            {
              physicalLocation: {
                artifactLocation: { uri: encodeURI(place.file) },
                ...(place.line === null ? {} : { region: { startLine: place.line } }),
              },
            },
          ],
        }),
  };
}

/** `TABLE_REWRITTEN` as `Table rewritten`. */
function words(code: string): string {
  const lower = code.toLowerCase().replaceAll('_', ' ');
  return lower.charAt(0).toUpperCase() + lower.slice(1);
}
