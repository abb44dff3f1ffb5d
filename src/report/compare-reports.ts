import { formatBytes, formatDuration, plural } from '../format.ts';
import type { Report } from '../model/report.ts';

/** Smaller differences between two runs mean nothing. */
const NOTABLE_FACTOR = 1.5;
const NOTABLE_MS = 100;

/** Compares a run with an earlier one in sentences; nothing if there is no notable difference. */
export function compareReports(now: Report, then: Report): string[] {
  return [
    ...verdicts(now, then),
    ...durations(now, then),
    ...hazards(now, then),
    ...schemas(now, then),
    ...sizes(now, then),
  ];
}

function verdicts(now: Report, then: Report): string[] {
  if (now.verdict.pass === then.verdict.pass) return [];
  return [now.verdict.pass ? 'it passes now, but did not then' : 'it no longer passes'];
}

function durations(now: Report, then: Report): string[] {
  const [ms, before] = [now.command.durationMs, then.command.durationMs];
  const notable =
    Math.abs(ms - before) > NOTABLE_MS && Math.max(ms, before) > NOTABLE_FACTOR * Math.min(ms, before);
  if (!notable) return [];
  return [`the command took ${formatDuration(ms)} (${formatDuration(before)} then)`];
}

function hazards(now: Report, then: Report): string[] {
  const key = ({ code, relation }: Report['hazards'][number]) =>
    relation === null ? code : `${code} on ${relation}`;
  const [present, past] = [new Set(now.hazards.map(key)), new Set(then.hazards.map(key))];
  const found = [...present].filter((each) => !past.has(each));
  const gone = [...past].filter((each) => !present.has(each));
  return [
    ...(found.length > 0 ? [`new: ${found.join(', ')}`] : []),
    ...(gone.length > 0 ? [`no longer found: ${gone.join(', ')}`] : []),
  ];
}

function schemas({ schema: now }: Report, { schema: then }: Report): string[] {
  if (!now || !then) return [];
  if (now.before !== then.before) return ['the schema of the target is different from then'];
  return now.after === then.after ? [] : ['the migrated schema is different from then'];
}

function sizes({ target: now }: Report, { target: then }: Report): string[] {
  const grown = now.sizeBytes > NOTABLE_FACTOR * then.sizeBytes;
  return grown
    ? [`the target has grown from ${formatBytes(then.sizeBytes)} to ${formatBytes(now.sizeBytes)}`]
    : [];
}

/** Lists statements that took notably longer or shorter, one a line, matched by their text. */
export function compareStatements(now: Report, then: Report): string[] {
  const past = new Map(then.statements.map(({ sql, durationMs }) => [sql, durationMs]));
  const lines = now.statements.flatMap(({ sql, durationMs }) => {
    const before = past.get(sql);
    if (before === undefined) return [];
    const factor = Math.max(durationMs, before) / Math.max(0.01, Math.min(durationMs, before));
    if (factor < NOTABLE_FACTOR || Math.abs(durationMs - before) < NOTABLE_MS) return [];
    return [
      `${formatDuration(before)} then, ${formatDuration(durationMs)} now: ${sql.replace(/\s+/g, ' ').slice(0, 100)}`,
    ];
  });
  const added = now.statements.filter(({ sql }) => !past.has(sql)).length;
  return [...lines, ...(added > 0 ? [`${plural(added, 'new statement')}`] : [])];
}
