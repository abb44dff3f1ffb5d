import { plural } from '../../format.ts';
import type { Report } from '../../model/report.ts';
import { flow, type TextStyle, tone } from '../text-layout.ts';
import { andMore, bullet, heading, messageText } from './parts-text.ts';

const LISTED = 8;

/** How to undo the migration once it ran, as far as that can be done. */
export function rollbackText({ schema }: Report, style: TextStyle): string[] {
  if (schema === null || (schema.changes.length === 0 && schema.renames.length === 0)) return [];
  const where = 'in the JSON report at schema.rollbackSql (--report FILE.json)';
  if (schema.rollbackSql === null)
    return [
      ...heading(style, 'Way back', 'no SQL could be made for it'),
      ...losses(schema.rollbackLoses, style),
    ];
  const count = countStatements(schema.rollbackSql);
  const amount = count === undefined ? 'SQL' : plural(count, 'statement');
  const leads = count === 1 ? 'leads' : 'lead';
  return [
    ...heading(style, 'Way back', `${amount} that ${leads} to the schema before, ${where}`),
    ...losses(schema.rollbackLoses, style),
  ];
}

function losses(lost: string[], style: TextStyle): string[] {
  return [
    ...lost
      .slice(0, LISTED)
      .flatMap((each) => bullet(style, [tone('warning', 'CANNOT RESTORE'), `: ${messageText(style, each)}`])),
    ...andMore(style, lost.length - LISTED),
  ];
}

const TOKENS =
  /[eE]'(?:[^'\\]|\\.)*'|'[^']*'|"[^"]*"|\$(\w*)\$[\s\S]*?\$\1\$|--.*|\/\*[\s\S]*?\*\/|[^\s;]|;/g;

/** @returns undefined where a semicolon need not end a statement: within the body of an SQL-standard function. */
export function countStatements(sql: string): number | undefined {
  if (/\bBEGIN\s+ATOMIC\b/i.test(sql)) return undefined;
  let count = 0;
  let begun = false;
  for (const [token] of sql.matchAll(TOKENS)) {
    if (token === ';') {
      if (begun) count += 1;
      begun = false;
    } else if (!token.startsWith('--') && !token.startsWith('/*')) begun = true;
  }
  return begun ? count + 1 : count;
}

/** True of every run of this kind, so that they say nothing of this one; the JSON report has them. */
const STANDING = new Set([
  'clone.uniqueBytes',
  'statements[].walBytes',
  'statements[].rewrote',
  'data.walBytes',
  'queries',
  'forecast.disk.freeBytes',
]);

/** The caveats of the report; paths with the same reason share a line. */
export function limitsSection(report: Report, style: TextStyle): string[] {
  const caveats = report.caveats.filter(({ path }) => !STANDING.has(path));
  if (caveats.length === 0) return [];
  const groups = new Map<string, { kind: string; reason: string; paths: string[] }>();
  for (const { path, kind, reason } of caveats) {
    const key = JSON.stringify([kind, reason]);
    const group = groups.get(key);
    if (group) group.paths.push(path);
    else groups.set(key, { kind, reason, paths: [path] });
  }
  const lines = [...groups.values()].slice(0, LISTED).flatMap(({ kind, reason, paths }) => {
    const named = paths.slice(0, 3).join(', ') + (paths.length > 3 ? ` and ${paths.length - 3} more` : '');
    return bullet(style, [
      `${named}: ${kind === 'estimate' ? 'an estimate' : 'not measured'}, ${messageText(style, reason)}`,
    ]);
  });
  return [...heading(style, 'Caveats'), ...lines, ...andMore(style, groups.size - LISTED)];
}

/** Stands last, where the prompt is: what is still there has to be removed by somebody. */
export function cleanupSection({ cleanup }: Report, style: TextStyle): string[] {
  if (cleanup.failed.length === 0) return [];
  return [
    ...flow(
      style,
      [tone('bad', 'NOT CLEANED UP'), `  ${plural(cleanup.failed.length, 'thing')} left behind`],
      2,
      [''],
    ),
    ...cleanup.failed
      .slice(0, LISTED)
      .flatMap(({ name, reason }) =>
        bullet(style, [tone('strong', name), `: ${messageText(style, reason)}`]),
      ),
    ...andMore(style, cleanup.failed.length - LISTED),
    ...flow(style, ['Run ', tone('strong', 'safemigrate clean'), ' to remove what is left.'], 2, ['  ']),
  ];
}
