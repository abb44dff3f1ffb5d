import type { TargetSection } from '../model/report.ts';
import type { Target } from './target.ts';

/** Builds the report's target section, which has no password. */
export function describeTarget(
  { settings, source, server, database }: Target,
  found: Pick<TargetSection, 'changes' | 'unchanged' | 'sessions'>,
  { touched, origin }: Pick<TargetSection, 'touched' | 'origin'>,
): TargetSection {
  const [address] = settings.hosts;
  return {
    host: address?.host ?? '',
    port: address?.port ?? 0,
    database: database.name,
    serverVersion: server.version,
    sizeBytes: database.sizeBytes,
    source,
    origin,
    changes: found.changes,
    unchanged: found.unchanged,
    sessions: found.sessions,
    touched,
  };
}
