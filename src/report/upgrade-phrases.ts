import { formatDuration, listed, plural } from '../format.ts';
import type {
  ApplicationSection,
  ModeSection,
  PostUpgradeCommand,
  UpgradeReport,
} from '../model/upgrade-model.ts';

/** Returns the first line of the report: the recommendation, or the obstacles that prevent the upgrade. */
export function upgradeSummary(report: UpgradeReport): string {
  const { recommendation, modes, to, verdict } = report;
  const codes = gravest(report);
  if (codes.length > 1) return `${codes.length} obstacles prevent the upgrade: ${codes.join(', ')}`;
  const chosen = modes.find(({ mode }) => mode === recommendation?.mode);
  if (!verdict.pass || !recommendation || !chosen)
    return verdict.reasons[0] ?? `the upgrade to PostgreSQL ${to.major} would succeed`;
  return `users would wait ${formatDuration(chosen.downtimeMs ?? 0)} with pg_upgrade --${chosen.mode}`;
}

/** Lists the reasons that the summary does not have: obstacles, whose reasons come first, are listed with their remedies. */
export function furtherReasons(report: UpgradeReport): string[] {
  return report.verdict.reasons.slice(Math.max(1, gravest(report).length));
}

function gravest({ obstacles }: UpgradeReport): string[] {
  return obstacles.filter(({ severity }) => severity === 'error').map(({ code }) => code);
}

/** What was tried on both versions. */
export function triedWords({ mode, queries, checks, schemaChanges }: ApplicationSection): string {
  const what = [
    ...(queries === null
      ? []
      : [`${plural(queries.checked, 'query', 'queries')} of the application (${queries.source})`]),
    ...(checks.length === 0 ? [] : [plural(checks.length, 'check')]),
    ...(schemaChanges === null ? [] : ['the schema']),
  ];
  return what.length === 0 ? 'nothing on both versions' : `${listed(what)} on both versions, after --${mode}`;
}

/** Whether the old cluster can be used again: after `link` until the new server has started, after `swap` not even before. */
export function wayBackWords({ wayBack, mode }: ModeSection): string {
  if (wayBack) return 'yes';
  return mode === 'swap' ? 'none' : 'until started';
}

/** The command that belongs to the upgrade, and how it ended. */
export function postUpgradeWords({ argv, exitCode, durationMs }: PostUpgradeCommand): string {
  const failed = exitCode === 0 ? '' : `, with exit code ${exitCode ?? 'none'}`;
  return `${argv.join(' ')}, in ${formatDuration(durationMs)}${failed}`;
}

/** A mode that did not pass. */
export function notPassedWords({ mode, outcome, reason }: ModeSection): string {
  return `${mode} ${outcome === 'failed' ? 'failed' : 'was not tried'}: ${reason ?? ''}`;
}

/** Facts with their labels. */
export function upgradeFacts({
  from,
  to,
  target,
  clone,
  command,
  application,
}: UpgradeReport): [string, string][] {
  return [
    ['Upgrade', `PostgreSQL ${from.version} → ${to.version}, ${target.host}:${target.port}`],
    [
      'Copy',
      `${plural(target.databases, 'database')}, by ${clone.strategy}, recovered and shut down in ${formatDuration(clone.durationMs)}; the target went on working`,
    ],
    ...target.touched.map((what): [string, string] => ['Touched', what]),
    ...(command === null ? [] : [['Command', postUpgradeWords(command)] as [string, string]]),
    ...(application === null ? [] : [['Tried', triedWords(application)] as [string, string]]),
  ];
}
