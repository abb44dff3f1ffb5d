import { SafemigrateError } from '../../errors.ts';
import { KNOWN_HAZARDS } from '../../hazards/catalogue.ts';
import type { HazardTexts } from '../../hazards/hazard-definition.ts';
import { flow, type TextStyle, tone } from '../../report/text-layout.ts';
import { EXPLAIN_SETTINGS } from '../options/subcommand-settings.ts';
import { jsonText } from '../print.ts';
import { gatherOptions } from '../read-options.ts';
import { styleOf, textTable } from '../style.ts';

/** Prints the record of one hazard, or the list of all; as JSON one object in both cases. @throws SafemigrateError `USAGE` for a code that there is not. */
export async function explainCommand(
  flags: Record<string, unknown>,
  code: string | undefined,
): Promise<number> {
  const { format } = await gatherOptions(EXPLAIN_SETTINGS, flags);
  process.stdout.write(format === 'json' ? asJson(code) : asText(code, styleOf(process.stdout)));
  return 0;
}

function asText(code: string | undefined, style: TextStyle): string {
  return code === undefined ? listOfHazards() : explanation(recordOf(code), style);
}

function asJson(code: string | undefined): string {
  const texts = ({ code, title, condition, effect, safer }: HazardTexts) => ({
    code,
    title,
    condition,
    effect,
    safer,
  });
  return jsonText(code === undefined ? { hazards: KNOWN_HAZARDS.map(texts) } : texts(recordOf(code)));
}

export function listOfHazards(): string {
  const rows = KNOWN_HAZARDS.map(({ code, title }) => [code, title]);
  return `${textTable(['HAZARD', 'WHAT IT IS'], rows)}\nMore of one: safemigrate explain CODE\n`;
}

/** Finds the record of a code, which may be typed in lower case. */
export function recordOf(code: string): HazardTexts {
  const wanted = code.toUpperCase().replaceAll('-', '_');
  const record = KNOWN_HAZARDS.find((each) => each.code === wanted);
  if (record) return record;
  const [guess] = KNOWN_HAZARDS.map((each) => ({
    code: each.code,
    distance: distance(wanted, each.code),
  })).sort((a, b) => a.distance - b.distance);
  const isLikely = guess !== undefined && guess.distance <= Math.max(3, wanted.length / 3);
  throw new SafemigrateError('USAGE', `There is no hazard ${code}.`, {
    hint: `${isLikely ? `Did you mean ${guess.code}? ` : ''}All of them: safemigrate explain`,
  });
}

export function explanation(
  { code, title, condition, effect, safer }: HazardTexts,
  style: TextStyle,
): string {
  const part = (label: string, text: string) => [
    '',
    ...flow(style, [tone('strong', label)]),
    ...flow(style, [text], 2, ['  ']),
  ];
  const lines = [
    ...flow(style, [': ', title], 2, [tone('strong', code)]),
    ...part('Found when', condition),
    ...part('In production', effect),
    ...part('Safer', safer),
  ];
  return `${lines.join('\n')}\n`;
}

/** Returns the Levenshtein distance of two words. */
function distance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (const [index, letter] of [...one].entries()) {
    const next = [index + 1];
    for (const [column, compared] of [...other].entries())
      next.push(
        Math.min(
          (next[column] ?? 0) + 1,
          (row[column + 1] ?? 0) + 1,
          (row[column] ?? 0) + (letter === compared ? 0 : 1),
        ),
      );
    row = next;
  }
  return row.at(-1) ?? 0;
}
