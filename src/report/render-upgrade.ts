import type { UpgradeReport } from '../model/upgrade-model.ts';
import type { UpgradeFormat } from './formats.ts';
import type { TextStyle } from './text-layout.ts';
import { renderUpgradeHtml } from './upgrade-html.ts';
import { renderUpgradeJunit } from './upgrade-junit.ts';
import { renderUpgradeMarkdown } from './upgrade-markdown.ts';
import { renderUpgradeText } from './upgrade-text.ts';
import { visibleJson } from './visible.ts';

/** Renders the report of an upgrade. Only the text format uses the style. */
export function renderUpgrade(report: UpgradeReport, format: UpgradeFormat, style: TextStyle): string {
  switch (format) {
    case 'text':
      return renderUpgradeText(report, style);
    case 'markdown':
      return renderUpgradeMarkdown(report);
    case 'html':
      return renderUpgradeHtml(report);
    case 'junit':
      return renderUpgradeJunit(report);
    case 'json':
      return `${visibleJson(JSON.stringify(report, null, 2))}\n`;
  }
}
