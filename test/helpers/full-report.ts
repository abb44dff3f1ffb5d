import type { Report } from '../../src/model/report.ts';
import { reportJsonSchema } from '../../src/report/report-schema.ts';

interface Schema {
  readonly type?: string | readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
}

/**
 * A report that has a value at every path of its schema. The variants differ in what they choose of several values, so that
 * what is shown only beside one of them is in one of the reports.
 */
function fullReport(variant: number): Report {
  let count = 0;
  const valueFor = (schema: Schema, name: string): unknown => {
    count += 1;
    if (schema.anyOf) return valueFor(schema.anyOf.find(({ type }) => type !== 'null') ?? {}, name);
    if (schema.const !== undefined) return schema.const;
    if (schema.enum) return schema.enum[variant % schema.enum.length];
    if (schema.properties)
      return Object.fromEntries(
        Object.entries(schema.properties).map(([key, each]) => [key, valueFor(each, key)]),
      );
    // Of attempts, only several are shown.
    if (schema.items)
      return Array.from({ length: name === 'attempts' ? 2 : 1 }, () => valueFor(schema.items ?? {}, name));
    const type = [schema.type ?? []].flat().find((each) => each !== 'null');
    if (type === 'boolean') return variant % 2 === 0;
    // A name such as "relation 1" stands for one that is not known.
    if (name === 'relation') return `public.relation_${count}`;
    if (type === 'string')
      return /(At|since|until)$/i.test(name)
        ? new Date(Date.UTC(2026, 2, 14, 2, 0, count)).toISOString()
        : `${name} ${count}`;
    // Numbers of statements and the like belong together.
    if (/^(index|statement|transaction|session|rehearsed|applied|unnoted)$/.test(name)) return 1;
    if (name === 'exitCode') return variant % 3;
    // A full pool.
    if (name === 'limit') return 100_000;
    if (name === 'open') return 50_000;
    return 100_000 + count;
  };
  return valueFor(reportJsonSchema() as Schema, '') as Report;
}

/** Full reports, and such in which nothing hides what stands in the place of another value. */
export function fullReports(): Report[] {
  const full = [0, 1, 2, 3, 4, 5].map(fullReport);
  return full.flatMap((report) => [report, withLess(report)]);
}

function withLess(report: Report): Report {
  const clean = { exitCode: 0, refused: [], differences: [], dataDifferences: [], schemaEqual: true };
  return {
    ...report,
    apply: null,
    swap: null,
    load: null,
    script: report.script && { ...report.script, file: null },
    target: { ...report.target, changes: [] },
    command: { ...report.command, rewritten: [] },
    forecast: report.forecast && { ...report.forecast, profiledAt: undefined },
    rerun: report.rerun && { ...report.rerun, ...clean },
    down: report.down && { ...report.down, ...clean },
    atOnce: report.atOnce && { ...report.atOnce, schemaEqual: true, dataDifferences: [] },
  };
}
