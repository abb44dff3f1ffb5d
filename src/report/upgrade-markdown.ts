import { formatBytes, formatDuration } from '../format.ts';
import type { ModeSection, UpgradeObstacle, UpgradeReport } from '../model/upgrade-model.ts';
import { block, code, prose } from './markdown/escape-markdown.ts';
import { failurePart } from './markdown/findings-markdown.ts';
import { caveatPart, statementPart } from './markdown/parts-markdown.ts';
import {
  furtherReasons,
  notPassedWords,
  upgradeFacts,
  upgradeSummary,
  wayBackWords,
} from './upgrade-phrases.ts';

/** The report of an upgrade for a pull request or an issue. */
export function renderUpgradeMarkdown(report: UpgradeReport): string {
  const { verdict, recommendation, obstacles, modes, caveats } = report;
  return `${[
    `## ${verdict.pass ? '✅ Passed' : '❌ Did not pass'}: ${prose(upgradeSummary(report))}`,
    '',
    ...furtherReasons(report).map((reason) => `- ${prose(reason)}`),
    ...(recommendation === null
      ? []
      : ['', `Choose ${code(`--${recommendation.mode}`)}: ${prose(recommendation.reason)}.`]),
    '',
    ...upgradeFacts(report).map(([label, value]) => `- **${label}**: ${prose(value)}`),
    ...modeTable(modes, report),
    ...(obstacles.length === 0 ? [] : ['', '### In the way', '']),
    ...obstacles.flatMap(obstacleLines),
    ...commandLines(report),
    ...(caveats.length === 0 ? [] : ['', '### Caveats', '', ...caveatPart(report).items]),
  ].join('\n')}\n`;
}

function modeTable(modes: readonly ModeSection[], { recommendation }: UpgradeReport): string[] {
  const passed = modes.filter(({ outcome }) => outcome === 'passed');
  if (modes.length === 0) return [];
  return [
    '',
    ...(passed.length === 0 ? [] : ['| mode | users wait | disk | way back |', '|---|--:|--:|---|']),
    ...passed.map((each) => {
      const { mode, downtimeMs, peakBytes } = each;
      const name = mode === recommendation?.mode ? `**${mode}**` : mode;
      const disk = peakBytes === null ? '?' : formatBytes(peakBytes);
      return `| ${name} | ${formatDuration(downtimeMs ?? 0)} | ${disk} | ${wayBackWords(each)} |`;
    }),
    '',
    ...modes.filter(({ outcome }) => outcome !== 'passed').map((each) => `- ${prose(notPassedWords(each))}`),
  ];
}

const SHOWN = 10;

/** What the command that belongs to the upgrade sent. */
function commandLines({ command }: UpgradeReport): string[] {
  if (command === null) return [];
  return [statementPart(command), failurePart(command)].flatMap(({ title, head, items }) =>
    items.length === 0
      ? []
      : [
          ...['', `### ${title}`, '', ...head, ...items.slice(0, SHOWN)],
          ...(items.length > SHOWN ? ['', `and ${items.length - SHOWN} more, see the JSON report`] : []),
        ],
  );
}

function obstacleLines({
  code: name,
  severity,
  message,
  objects,
  count,
  remedy,
  sql,
}: UpgradeObstacle): string[] {
  const shown = objects.slice(0, SHOWN);
  return [
    `- ${severity}: ${code(name)} ${prose(message)}`,
    ...shown.map((object) => `  - ${code(object)}`),
    ...(count > shown.length ? [`  - and ${count - shown.length} more`] : []),
    `  - Do: ${prose(remedy)}`,
    ...(sql.length === 0 ? [] : ['', ...indented(block('sql', sql.slice(0, SHOWN).join('\n'))), '']),
  ];
}

/** As a part of an item of a list. */
function indented(lines: readonly string[]): string[] {
  return lines.flatMap((text) => text.split('\n')).map((line) => `  ${line}`);
}
