import { type RehearsalEvidence, reachJudgement } from '../../src/hazards/judgement.ts';
import { DEFAULT_POLICY } from '../../src/hazards/policy-settings.ts';
import type { Profile } from '../../src/model/profile-model.ts';
import { facts } from './facts.ts';
import { sampleReport } from './reports.ts';

/** The judgement of a rehearsal without anything remarkable but these facts. */
export function judgementOf(
  given: Parameters<typeof facts>[0],
  profile: Profile | null,
  more: Partial<RehearsalEvidence> = {},
): ReturnType<typeof reachJudgement> {
  const report = sampleReport();
  const evidence: RehearsalEvidence = {
    ...facts(given),
    target: report.target,
    command: report.command,
    schema: report.schema,
    targetConnections: [],
    queries: null,
    checks: [],
    rerun: null,
    down: null,
    interrupted: false,
    load: null,
    atOnce: null,
    loadRequested: false,
    traffic: { unmeasured: 'test' },
    rewrittenBytes: null,
    diskSpace: null,
    unsharedBytes: null,
    targetWasEmptied: false,
    caveats: [],
    ...more,
  };
  return reachJudgement(evidence, DEFAULT_POLICY, '2026-11-23', profile);
}
