import type { Hazard, Report } from '../model/report.ts';
import { visibleJson } from './visible.ts';

/** The place of a statement in a file of the working tree; lines count from 1. */
export interface Location {
  readonly file: string;
  readonly line: number;
}

const LEVELS = { error: 'error', warning: 'warning', notice: 'note' } as const;

/**
 * Renders the hazards that the policy does not allow as SARIF 2.1.0 for code scanning.
 * @param locations by the index of the statement; a statement that was found in no file has none.
 */
export function renderSarif({ run, hazards }: Report, locations: ReadonlyMap<number, Location>): string {
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
            rules: codes.map((id) => ({ id, shortDescription: { text: words(id) } })),
          },
        },
        results: open.map((hazard) => resultOf(hazard, codes, locations)),
      },
    ],
  };
  return `${visibleJson(JSON.stringify(log, null, 2))}\n`;
}

function resultOf(
  { code, severity, statement, relation, message, evidence, advice }: Hazard,
  codes: readonly string[],
  locations: ReadonlyMap<number, Location>,
) {
  const location = statement === null ? undefined : locations.get(statement);
  const text = [message, evidence && `Evidence: ${evidence}`, advice && `Do: ${advice}`]
    .filter(Boolean)
    .join('\n');
  return {
    ruleId: code,
    ruleIndex: codes.indexOf(code),
    level: LEVELS[severity],
    message: { text },
    // Identifies the finding in the next run, even if its line has moved.
    partialFingerprints: { hazard: `${code} ${relation ?? ''}` },
    ...(location === undefined
      ? {}
      : {
          locations: [
            {
              physicalLocation: {
                artifactLocation: { uri: encodeURI(location.file) },
                region: { startLine: location.line },
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
