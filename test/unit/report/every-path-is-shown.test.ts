import { describe, expect, test } from 'vitest';
import type { Report } from '../../../src/model/report.ts';
import { renderHtml } from '../../../src/report/html.ts';
import { renderMarkdown } from '../../../src/report/markdown.ts';
import { renderText } from '../../../src/report/text.ts';
import { fullReports } from '../../helpers/full-report.ts';
import { type ReportRow, reportRows } from '../../helpers/report-page.ts';
import { sampleReports } from '../../helpers/reports.ts';
import { type Format, NOT_SHOWN } from './not-shown.ts';

/** A path counts as shown if a change of its value changes the output, in any of these reports. */
const { large, ...samples } = sampleReports;
const BASES: readonly Report[] = structuredClone([...fullReports(), ...Object.values(samples)]);

const RENDERERS: Readonly<Record<Format, (report: Report) => string>> = {
  text: (report) => renderText(report, { columns: 200, colour: false, unicode: true, verbose: true }),
  html: renderHtml,
  markdown: renderMarkdown,
};

const ROWS = reportRows().flatMap(({ rows }) => rows);
/** Paths of values: objects are shown by what they consist of. Constants cannot differ. */
const VALUES = ROWS.filter(
  ({ path, type }) =>
    !ROWS.some((other) => other.path.startsWith(`${path}.`)) && !/^`[^`]*`(?!, `)/.test(type),
);

/** Another value of the same kind; none for an object. */
function otherValues(value: unknown, type: string): unknown[] {
  const members = [...type.matchAll(/`([^`]*)`/g)].map(([, member]) => member);
  if (members.length > 0) return members.filter((member) => member !== value);
  switch (typeof value) {
    case 'string':
      return /^\d{4}-\d\d-\d\dT/.test(value)
        ? [new Date(Date.parse(value) + 5_000_000).toISOString()]
        : [`Q${value}`];
    case 'number':
      return [value * 3 + 7, 0];
    case 'boolean':
      return [!value];
    default:
      return [];
  }
}

const MOST_CHOICES = 6;

/** Renders the report with other values at the paths; undefined if it has none there, or not so many choices. */
function renderedOtherwise(
  report: Report,
  rows: readonly ReportRow[],
  choice: number,
  render: (report: Report) => string,
): string | undefined {
  const undo: (() => void)[] = [];
  for (const { path, type } of rows)
    for (const { parent, name } of parentsOf(report, path.split('.'))) {
      const before = parent[name];
      const after = otherwise(before, type, choice);
      if (after === undefined) continue;
      parent[name] = after;
      undo.unshift(() => {
        parent[name] = before;
      });
    }
  const rendered = undo.length === 0 ? undefined : render(report);
  for (const restore of undo) restore();
  return rendered;
}

function otherwise(value: unknown, type: string, choice: number): unknown {
  if (!Array.isArray(value)) return otherValues(value, type)[choice];
  // Statements of further runs.
  if (value.some((each) => typeof each === 'object')) return choice === 0 ? [] : undefined;
  const others = value.map((each) => otherValues(each, type)[choice]);
  return others.some((each) => each === undefined) || value.length === 0 ? undefined : others;
}

/** The objects that have the last key of a path. */
function parentsOf(
  node: unknown,
  [key = '', ...rest]: string[],
): { parent: Record<string, unknown>; name: string }[] {
  const name = key.replace('[]', '');
  const parent = node as Record<string, unknown> | null | undefined;
  const child = parent?.[name];
  if (!parent || child === undefined || child === null) return [];
  if (rest.length === 0) return [{ parent, name }];
  return (Array.isArray(child) ? child : [child]).flatMap((each) => parentsOf(each, rest));
}

/** Each path is tried in all reports. */
const TIMEOUT_MS = 300_000;

describe.each(['text', 'html', 'markdown'] as const)(
  'the report as %s',
  { timeout: TIMEOUT_MS },
  (format) => {
    const render = RENDERERS[format];
    const before = BASES.map(render);
    const areShown = (rows: readonly ReportRow[]) =>
      BASES.some((base, at) =>
        Array.from({ length: MOST_CHOICES }).some((_, choice) => {
          const changed = renderedOtherwise(base, rows, choice, render);
          return changed !== undefined && changed !== before[at];
        }),
      );
    const entries = Object.keys({ ...NOT_SHOWN.all, ...NOT_SHOWN[format] });
    const covers = (entry: string, path: string) => path === entry || path.startsWith(`${entry}.`);
    const isExcused = ({ path }: ReportRow) => entries.some((entry) => covers(entry, path));

    test(`every path of the report is shown as ${format}, or is in NOT_SHOWN with a reason`, () => {
      const missing = VALUES.filter((row) => !isExcused(row) && !areShown([row])).map(({ path }) => path);
      expect(missing).toEqual([]);
    });

    test(`what NOT_SHOWN names is not shown as ${format}`, () => {
      const excused = VALUES.filter(isExcused);
      // All at once, since each by itself takes long.
      const shown = areShown(excused) ? excused.filter((row) => areShown([row])).map(({ path }) => path) : [];
      expect(shown).toEqual([]);
      expect(entries.filter((entry) => !VALUES.some(({ path }) => covers(entry, path)))).toEqual([]);
    });
  },
);
