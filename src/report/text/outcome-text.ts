import { listed, plural } from '../../format.ts';
import type { Report } from '../../model/report.ts';
import { type TextStyle, tone } from '../text-layout.ts';
import { andMore, bullet, heading, messageText } from './parts-text.ts';

const LISTED = 8;

/** How to undo the migration later, as far as that is possible. */
export function rollbackText({ schema }: Report, style: TextStyle): string[] {
  if (schema === null || (schema.changes.length === 0 && schema.renames.length === 0)) return [];
  if (schema.rollbackSql === null)
    return [
      ...heading(style, 'Rollback SQL', 'none could be generated'),
      ...losses(schema.rollbackLoses, style),
    ];
  const count = countStatements(schema.rollbackSql);
  const amount = count === undefined ? '' : `${plural(count, 'statement')}, `;
  return [
    ...heading(style, 'Rollback SQL', `${amount}in the JSON report (schema.rollbackSql)`),
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

/** Counts the statements in SQL. @returns undefined if a semicolon may not end a statement: in the body of an SQL-standard function. */
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

/** Paths with a caveat in every run of this kind, which says nothing about this run; the JSON report has them. */
const CONSTANT = new Set([
  'clone.uniqueBytes',
  'statements[].walBytes',
  'statements[].rewrote',
  'command.statements[].walBytes',
  'command.statements[].rewrote',
  'data.walBytes',
  'queries',
  'forecast.disk.freeBytes',
]);

/** Each of its estimates is shown with a `~`. */
const MARKED_AS_ESTIMATE = 'data.tables';

/** The caveats of the report; paths with the same reason share a line. */
export function caveatsText(report: Pick<Report, 'caveats'>, style: TextStyle): string[] {
  const caveats = report.caveats.filter(
    ({ path, kind }) =>
      !CONSTANT.has(path) && (style.verbose || kind !== 'estimate' || path !== MARKED_AS_ESTIMATE),
  );
  if (caveats.length === 0) return [];
  const groups = new Map<string, { kind: string; reason: string; paths: string[] }>();
  for (const { path, kind, reason } of caveats) {
    const key = JSON.stringify([kind, reason]);
    const group = groups.get(key);
    if (group) group.paths.push(path);
    else groups.set(key, { kind, reason, paths: [path] });
  }
  const lines = [...groups.values()].slice(0, LISTED).flatMap(({ kind, reason, paths }) => {
    const what = kind === 'estimate' ? 'estimate' : 'not measured';
    return bullet(style, [`${listed(paths, { atMost: 3 })} (${what}): ${messageText(style, reason)}`]);
  });
  return [...heading(style, 'Caveats'), ...lines, ...andMore(style, groups.size - LISTED)];
}
