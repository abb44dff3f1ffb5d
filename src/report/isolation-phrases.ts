import { formatDuration, formatTime } from '../format.ts';
import type { CommandIsolation, Report } from '../model/report.ts';

/** The end of a sentence about the command: by what it is kept from the target. */
export function isolationText({ kind, by, scoped, covered, allowed, reason }: CommandIsolation): string {
  const besides = allowed.length === 0 ? '' : `; --permit: ${allowed.join(', ')}`;
  const hidden = covered.length === 0 ? '' : `; hidden from it: ${covered.join(', ')}`;
  const why = reason === null ? '' : `; no sandbox, because ${reason}`;
  if (kind === 'sandboxed') return `sandboxed by ${by}: no network but the proxy, no Unix socket${besides}`;
  if (kind === 'restricted')
    return `restricted by ${restrictionText({ by, scoped })}${besides}${hidden}${why}`;
  return `watched for connections of its own to the target, not sandboxed${hidden}${why}`;
}

/** Names the restriction, what it closes, and what it leaves open. */
export function restrictionText({ by, scoped }: Pick<CommandIsolation, 'by' | 'scoped'>): string {
  if (by === 'sandbox-exec')
    return "sandbox-exec (untried): no network but the proxy's port, on any host; it may signal other processes";
  const closed = scoped ? ', no signal to other processes' : '';
  const open = scoped ? 'Unix sockets with a path' : 'Unix sockets, signals to other processes';
  return `Landlock: TCP to the proxy's port alone${closed}; open are ${open}, UDP, and the same port of other hosts`;
}

/** Says that the command was only watched although a sandbox was wanted; undefined if it was not so. */
export function watchedWords({ command: { isolation } }: Pick<Report, 'command'>): string | undefined {
  const { kind, reason } = isolation;
  if (kind !== 'watched' || reason === null) return undefined;
  return `The command was only watched, not sandboxed: ${reason}`;
}

const CONTAINMENT: Readonly<Record<Report['clone']['containment'], string>> = {
  sandbox: 'isolated: a server of its own in a sandbox, without network',
  offline: 'partly isolated: a server of its own without network, with the files and sockets of its user',
  'own-server': 'not isolated: a server of its own, with the network of this machine',
  'target-server': "not isolated: inside the target's server",
  'other-server': 'not isolated by safemigrate: on another server',
};

/** Tells how far the clone is kept from the target and from other systems. */
export function containmentText(clone: Report['clone']): string {
  return [CONTAINMENT[clone.containment], ...(clone.exposure === null ? [] : [clone.exposure])].join('; ');
}

/** Describes the clone that a hosted service made; null for any other clone. */
export function serviceWords({ clone: { service }, run }: Pick<Report, 'clone' | 'run'>): string | null {
  if (!service) return null;
  const { name, instance, asOf, readsLazily } = service;
  const when =
    asOf === null ? 'data of an unknown time' : `data of ${formatTime(asOf)}${ageWords(asOf, run)}`;
  const reads = readsLazily ? '; it reads pages from a storage at their first use' : '';
  return `made by ${name}, ${when}; ${instance === null ? '' : `class ${instance}, `}cold caches${reads}`;
}

/** Data of this age is called the target's own. */
const FRESH_MS = 30 * 60_000;

/** Says why times and rows of such a clone differ from the target's; undefined if nothing does. */
export function serviceDoubt({ clone: { service }, run }: Pick<Report, 'clone' | 'run'>): string | undefined {
  if (!service) return undefined;
  const { name, asOf, readsLazily } = service;
  const age = asOf === null ? null : Date.parse(run.startedAt) - Date.parse(asOf);
  const doubts = [
    ...(age === null ? [`it is not known as of when its data is`] : []),
    ...(age !== null && age > FRESH_MS ? [`its data is ${formatDuration(age)} old`] : []),
    ...(readsLazily
      ? ['it reads pages from a storage at their first use, so that times are upper bounds']
      : []),
  ];
  return doubts.length === 0 ? undefined : `The clone is ${name}'s: ${doubts.join('; ')}`;
}

function ageWords(asOf: string, { startedAt }: Report['run']): string {
  const age = Date.parse(startedAt) - Date.parse(asOf);
  return age > FRESH_MS ? ` (${formatDuration(age)} old)` : '';
}
