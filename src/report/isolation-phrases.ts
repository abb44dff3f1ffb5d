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
