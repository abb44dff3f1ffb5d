import type { Report } from '../../report/model.ts';
import { visible } from '../../report/visible.ts';

/** GitHub shows at most ten of each kind for a step. */
const EACH = 10;
const KINDS = { error: 'error', warning: 'warning', notice: 'notice' } as const;

/** What GitHub Actions shows beside the run: the verdict's reasons and the hazards, as workflow commands. */
export function annotations({ verdict, hazards }: Report): string {
  const reasons = verdict.reasons.slice(0, EACH).map((reason) => command('error', 'safemigrate', reason));
  const found = hazards
    .filter(({ allowed, severity }) => !allowed && severity !== 'notice')
    .slice(0, 2 * EACH)
    .map(({ code, severity, relation, message, evidence }) =>
      command(
        KINDS[severity],
        relation === null ? code : `${code} on ${relation}`,
        `${message}. ${evidence}`,
      ),
    );
  return [...reasons, ...found].join('');
}

/** Line breaks and percent signs are escaped as the runner asks for; nothing else of a text is a command to it. */
function command(kind: string, title: string, text: string): string {
  const value = (part: string) =>
    visible(part).replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A');
  const property = value(title).replaceAll(':', '%3A').replaceAll(',', '%2C');
  return `::${kind} title=${property}::${value(text)}\n`;
}
